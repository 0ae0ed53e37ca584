// Makes src/wire.ts from the proto files: `node make-wire.mjs`, or `--check` to see whether it is as they say.
// As much of the language as they use: no nested types, no imports from elsewhere.

import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import process from 'node:process';

const FOLDER = new URL('../../../proto/tenure/v1/', import.meta.url);
const MADE = new URL('../src/wire.ts', import.meta.url);
const SCALARS = { string: 'string', bool: 'boolean', uint32: 'number', uint64: 'number', sint32: 'number' };

const made = write(read());
if (process.argv.includes('--check')) {
  if (readFileSync(MADE, 'utf8') !== made) {
    console.error('src/wire.ts is not what the proto files say: run `node tools/make-wire.mjs`');
    process.exit(1);
  }
  console.log('as the proto files say');
} else {
  writeFileSync(MADE, made);
}

function read() {
  const types = [];
  for (const file of readdirSync(FOLDER).sort()) {
    let type;
    let comment = [];
    for (const line of readFileSync(new URL(file, FOLDER), 'utf8').split('\n').map((it) => it.trim())) {
      const begun = /^(message|enum) (\w+) \{(\})?$/.exec(line);
      const value = /^(\w+) = (\d+);$/.exec(line);
      const field = /^(optional |repeated )?(map<string, string>|map<string, uint32>|\w+) (\w+) = (\d+);$/.exec(line);
      if (line.startsWith('//')) {
        comment.push(line.slice(2).trim());
        continue;
      }
      if (begun) {
        const kind = { kind: begun[1], name: begun[2], comment, members: [] };
        types.push(kind);
        type = begun[3] ? undefined : kind;
      } else if (type?.kind === 'enum' && value) {
        type.members.push({ name: value[1], number: Number(value[2]), comment });
      } else if (type?.kind === 'message' && field) {
        const [, label = '', of, name, number] = field;
        if (of === 'map<string, uint32>') {
          // On the wire a map is a list of entries.
          const entry = `${type.name}${camel(`_${name}`)}Entry`;
          const members = [['string', 'key'], ['uint32', 'value']];
          types.push({
            kind: 'message',
            name: entry,
            comment: [],
            members: members.map(([of, name], at) => ({ label: '', of, name, number: at + 1, comment: [] })),
          });
          type.members.push({ label: 'repeated', of: entry, name: camel(name), number: Number(number), comment });
        } else {
          type.members.push({ label: label.trim(), of, name: camel(name), number: Number(number), comment });
        }
      } else if (type && line && line !== '}' && !line.startsWith('oneof ')) {
        throw new Error(`${file}: what is \`${line}\`?`);
      } else if (/^\}$/.test(line) && !type?.inOneof) {
        type = undefined;
      }
      if (type) {
        type.inOneof = line.startsWith('oneof ') || (type.inOneof && line !== '}');
      }
      comment = [];
    }
  }
  return types;
}

function write(types) {
  const enums = new Map(types.filter((it) => it.kind === 'enum').map((it) => [it.name, it]));
  const messages = types.filter((it) => it.kind === 'message');
  const oneofs = new Set(['ClientRequest', 'ServerAnswer']);
  let text = `/**
 * The server's messages, made from the proto files by tools/make-wire.mjs. Enumerations are lower-case words, as in the
 * REST API; a value that is newer than this client is \`unknown\`. Durations are milliseconds and end in \`Ms\`.
 */

/* eslint-disable */
import { type Type, message } from './codec.js';

`;
  for (const { name, members, comment } of enums.values()) {
    const words = members.filter((it) => it.number !== 0).map((it) => `'${word(name, it.name)}'`);
    text += `${doc(comment)}export type ${name} = ${[...words, "'unknown'"].join(' | ')};\n`;
    const numbers = members.filter((it) => it.number !== 0).map((it) => `${it.number}: '${word(name, it.name)}'`);
    text += `const ${name}Words: Record<number, ${name}> = { ${numbers.join(', ')} };\n\n`;
  }
  for (const { name, members, comment } of messages) {
    text += `${doc(comment)}export interface ${name} {\n`;
    for (const it of members) {
      const isEnum = enums.has(it.of);
      const isMessage = !isEnum && !(it.of in SCALARS) && !it.of.startsWith('map');
      const absent = it.label === 'optional' || (it.label !== 'repeated' && (isEnum || isMessage)) || oneofs.has(name);
      const optional = absent && it.name !== 'id';
      const base = it.of.startsWith('map') ? 'Record<string, string>' : (SCALARS[it.of] ?? it.of);
      text += `${doc(it.comment, '  ')}  ${it.name}${optional ? '?' : ''}: ${base}${it.label === 'repeated' ? '[]' : ''};\n`;
    }
    text += '}\n';
    const fields = members.map((it) => {
      const isEnum = enums.has(it.of);
      const map = it.of.startsWith('map');
      const scalar = it.of in SCALARS;
      const kind = map ? 'map' : isEnum ? 'enum' : scalar ? it.of : 'message';
      const of = isEnum ? `${it.of}Words` : map || scalar ? undefined : `() => ${it.of}`;
      const parts = [it.number, `'${it.name}'`, `'${kind}'`, `'${it.label}'`, ...(of ? [of] : [])];
      return `  [${parts.join(', ')}],\n`;
    });
    text += `export const ${name}: Type<${name}> = message<${name}>([${fields.length ? `\n${fields.join('')}` : ''}]);\n\n`;
  }
  return `${text.trimEnd()}\n`;
}

function word(type, value) {
  const prefix = `${type.replace(/(?<!^)([A-Z])/g, '_$1').toUpperCase()}_`;
  return value.slice(prefix.length).toLowerCase();
}

function camel(name) {
  return name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
}

function doc(lines, indent = '') {
  if (lines.length === 0) {
    return '';
  }
  if (lines.length === 1) {
    return `${indent}/** ${lines[0]} */\n`;
  }
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}\n`).join('')}${indent} */\n`;
}
