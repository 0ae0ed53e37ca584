//! Compiles the `.proto` files and gives every message that REST carries its JSON form and schema.
//!
//! The attributes follow from the descriptors, so that a new field needs nothing but its line in the `.proto`
//! file. A field whose comment starts with `Required.` must be there in JSON.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use protox::prost_reflect::{Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

/// A refusal is three times as large as any other answer of a stream, and rare.
const LARGE_ANSWER: &str = ".tenure.v1.ServerAnswer.answer.refused";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo::rerun-if-changed={}", root.display());

    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_source_info(true).include_imports(true).open_file("tenure/v1/tenure.proto")?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;

    let pool = compiler.descriptor_pool();
    let sent = sent_by_callers(&pool);
    let mut config = tonic_prost_build::configure().btree_map(".");
    for message in pool.all_messages().filter(|message| !message.is_map_entry() && !is_envelope(message)) {
        config = derive(config, message.full_name());
        if sent.contains(message.full_name()) {
            config = config.type_attribute(message.full_name(), "#[serde(deny_unknown_fields)]");
        }
        for field in message.fields() {
            for attribute in json(&message, &field) {
                config = config.field_attribute(field.full_name(), attribute);
            }
        }
    }
    for enumeration in pool.all_enums() {
        config = derive(config, enumeration.full_name());
        config = config.type_attribute(enumeration.full_name(), "#[serde(rename_all = \"snake_case\")]");
        // Never said in JSON: the field is left out instead.
        config = config.field_attribute(unspecified(&enumeration), "#[serde(skip)]");
    }
    for field in requests_with_contents(&pool).iter().map(String::as_str).chain([LARGE_ANSWER]) {
        config = config.boxed(field);
    }
    config.compile_fds(compiler.file_descriptor_set())?;
    compile_ldlm(&root, &out)
}

/// LDLM's JSON has rules of its own, which the server keeps; here its messages are only protobuf.
fn compile_ldlm(root: &Path, out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut compiler = protox::Compiler::new([root])?;
    compiler.include_source_info(true).open_file("ldlm/ldlm.proto")?;
    std::fs::write(out.join("ldlm_descriptors.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure().compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

type Config = tonic_prost_build::Builder;

fn derive(config: Config, path: &str) -> Config {
    config.type_attribute(path, "#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]")
}

/// The messages with a choice of contents exist only in the gRPC stream.
fn is_envelope(message: &MessageDescriptor) -> bool {
    let mut within =
        message.fields().filter(FieldDescriptor::is_list).filter_map(|field| field.kind().as_message().cloned());
    message.oneofs().any(|choice| !choice.is_synthetic()) || within.any(|message| is_envelope(&message))
}

/// What a request of the stream can ask, as long as it has contents. These are boxed: otherwise every request takes the
/// room of the largest, and a message full of empty ones takes a hundred times what was sent.
fn requests_with_contents(pool: &DescriptorPool) -> Vec<String> {
    let request = pool.get_message_by_name("tenure.v1.ClientRequest").expect("sessions.proto has it");
    let choice = request.oneofs().next().expect("a request is a choice");
    let has_contents = |field: &FieldDescriptor| field.kind().as_message().is_some_and(|of| of.fields().len() > 0);
    // prost has its own way to name them, with a dot in front and with the choice.
    let path = |field: FieldDescriptor| format!(".{}.{}", choice.full_name(), field.name());
    choice.fields().filter(has_contents).map(path).collect()
}

/// The requests, and all that they contain: there an unknown field is a mistake worth telling.
fn sent_by_callers(pool: &DescriptorPool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = Vec::new();
    for service in pool.services() {
        open.extend(service.methods().map(|method| method.input()).filter(|input| !is_envelope(input)));
    }
    while let Some(message) = open.pop() {
        if found.insert(message.full_name().to_owned()) {
            open.extend(message.fields().filter_map(|field| field.kind().as_message().cloned()));
        }
    }
    found
}

fn json(message: &MessageDescriptor, field: &FieldDescriptor) -> Vec<String> {
    let mut attributes = Vec::new();
    if !is_required(field) {
        attributes.push("#[serde(default)]".to_owned());
    }
    let skip = |test: &str| format!("#[serde(skip_serializing_if = \"{test}\")]");
    if field.is_map() {
        attributes.push(skip("std::collections::BTreeMap::is_empty"));
    } else if field.cardinality() == Cardinality::Repeated {
        // A listing says that it is empty.
        if !message.name().ends_with("Response") {
            attributes.push(skip("Vec::is_empty"));
        }
    } else if let Kind::Enum(enumeration) = field.kind() {
        let name = enumeration.name();
        attributes.push(format!("#[serde(serialize_with = \"crate::json::serialize::<{name}, _>\")]"));
        attributes.push(format!("#[serde(deserialize_with = \"crate::json::deserialize::<{name}, _>\")]"));
        attributes.push(format!("#[schemars(with = \"{name}\")]"));
        attributes.push(skip("crate::json::is_unspecified"));
    } else if field.supports_presence() {
        attributes.push(skip("Option::is_none"));
    }
    attributes
}

fn is_required(field: &FieldDescriptor) -> bool {
    let file = field.parent_file().file_descriptor_proto().clone();
    let locations = file.source_code_info.map(|info| info.location).unwrap_or_default();
    locations
        .iter()
        .find(|location| location.path == field.path())
        .is_some_and(|location| location.leading_comments().trim_start().starts_with("Required."))
}

fn unspecified(enumeration: &EnumDescriptor) -> String {
    let zero = enumeration.default_value();
    format!("{}.{}", enumeration.full_name(), zero.name())
}
