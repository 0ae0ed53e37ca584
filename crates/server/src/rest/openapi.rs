//! The OpenAPI document, made from the same table as the router.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::routes::Route;
use super::{BASE, ErrorBody};

pub(super) fn document(table: &[Route]) -> Value {
    let settings = || {
        SchemaSettings::draft2020_12().with(|settings| {
            settings.meta_schema = None;
            settings.definitions_path = "/components/schemas".into();
        })
    };
    // What is optional in a request may be there in every answer, so the two cannot share their schemas.
    let mut requests = settings().with(|settings| settings.inline_subschemas = true).for_deserialize().into_generator();
    let mut answers = settings().for_serialize().into_generator();
    let error = answers.subschema_for::<ErrorBody>();

    let mut paths: Map<String, Value> = Map::new();
    for route in table {
        let operation = operation(route, &mut requests, &mut answers, &error);
        let path = paths.entry(format!("{BASE}{}", route.path)).or_insert_with(|| json!({}));
        path[route.method.lower_case()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tenure",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Locks, permits, pools of named resources and rate windows. Durations are milliseconds, \
                points in time milliseconds since the Unix epoch by the server's clock. What is not done is answered \
                with `error`, whose `code` is stable; docs/api.md lists all codes in order of precedence.",
        },
        "paths": paths,
        "components": { "schemas": answers.take_definitions(true) },
    })
}

fn operation(route: &Route, requests: &mut SchemaGenerator, answers: &mut SchemaGenerator, error: &Schema) -> Value {
    let content_type = if route.streams { "text/event-stream" } else { "application/json" };
    let mut operation = json!({
        "operationId": route.operation,
        "summary": route.summary,
        "responses": {
            "200": { "description": "Done", "content": { content_type: { "schema": (route.answer)(answers) } } },
            "default": {
                "description": "Not done: `error` says why, and what to do now",
                "content": { "application/json": { "schema": error } },
            },
        },
    });
    if let Some(make) = route.parameters {
        operation["parameters"] = parameters(route.path, make(requests).as_value());
    }
    if let Some(make) = route.body {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": make(requests) } } });
    }
    operation
}

/// The plain fields of a message; a message within it is the body.
fn parameters(path: &str, message: &Value) -> Value {
    let properties = message["properties"].as_object().into_iter().flatten();
    let plain = properties.filter(|(_, schema)| schema.get("properties").is_none());
    plain
        .map(|(name, schema)| {
            let in_path = path.contains(&format!("{{{name}}}"));
            let mut schema = schema.clone();
            let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            json!({
                "name": name,
                "in": if in_path { "path" } else { "query" },
                "required": in_path,
                "description": description,
                "schema": schema,
            })
        })
        .collect()
}
