/**
 * Protocol buffers, as much of them as our messages use, driven by tables. What is unknown is passed over, so that a newer
 * server may say more than this client understands. Numbers are JavaScript's: none of ours comes near 2^53.
 */

/** What may be given for a message: anything may be left out. */
export type Init<T> = T extends readonly (infer Item)[]
  ? readonly Init<Item>[]
  : T extends object
    ? { readonly [Name in keyof T]?: Init<T[Name]> | undefined }
    : T;

/** How a message is written and read. */
export interface Type<T> {
  encode(value: Init<T>): Buffer;
  decode(bytes: Uint8Array): T;
  /** @internal */
  readonly table: Table;
}

type Kind = 'string' | 'bool' | 'uint32' | 'uint64' | 'sint32' | 'enum' | 'message' | 'map';
type Words = Record<number, string>;
type Entry = readonly [
  number: number,
  name: string,
  kind: Kind,
  label: '' | 'optional' | 'repeated',
  of?: Words | (() => HasTable),
];
/** A type, whichever it is of. */
interface HasTable {
  readonly table: Table;
}
type Value = Record<string, unknown>;

interface Field {
  readonly tag: number;
  readonly name: string;
  readonly kind: Kind;
  readonly label: '' | 'optional' | 'repeated';
  readonly words: Words;
  readonly numbers: Map<string, number>;
  readonly of: (() => HasTable) | undefined;
}

interface Table {
  readonly fields: readonly Field[];
  readonly byTag: ReadonlyMap<number, Field>;
}

const VARINT = 0;
const BYTES = 2;

export function message<T>(entries: readonly Entry[]): Type<T> {
  const fields = entries.map(([number, name, kind, label, of]): Field => {
    const wireType = ['string', 'message', 'map'].includes(kind) ? BYTES : VARINT;
    const words: Words = typeof of === 'object' ? of : {};
    const numbers = new Map(Object.entries(words).map(([value, word]) => [word, Number(value)]));
    const type = typeof of === 'function' ? of : undefined;
    return { tag: number * 8 + wireType, name, kind, label, words, numbers, of: type };
  });
  const table = { fields, byTag: new Map(fields.map((field) => [field.tag, field])) };
  return {
    table,
    encode(value) {
      const writer = new Writer();
      writer.message(table, value as Value);
      return writer.finish();
    },
    decode(bytes) {
      const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      return new Reader(buffer).message(table, bytes.byteLength) as T;
    },
  };
}

class Writer {
  #buffer = Buffer.allocUnsafe(256);
  #at = 0;

  finish(): Buffer {
    return this.#buffer.subarray(0, this.#at);
  }

  message(table: Table, value: Value): void {
    for (const field of table.fields) {
      const given = value[field.name];
      if (given === undefined || given === null) {
        continue;
      }
      if (field.kind === 'map') {
        for (const [key, text] of Object.entries(given)) {
          this.#varint(field.tag);
          this.#sized(() => {
            this.#varint(8 + BYTES);
            this.#string(key);
            this.#varint(16 + BYTES);
            this.#string(String(text));
          });
        }
      } else if (field.label === 'repeated') {
        for (const item of given as unknown[]) {
          this.#field(field, item);
        }
      } else if (field.label === 'optional' || field.kind === 'message' || (given !== '' && given !== 0 && given !== false)) {
        this.#field(field, given);
      }
    }
  }

  #field(field: Field, given: unknown): void {
    this.#varint(field.tag);
    switch (field.kind) {
      case 'string':
        this.#string(given as string);
        break;
      case 'bool':
        this.#varint(given === true ? 1 : 0);
        break;
      case 'sint32': {
        const number = whole(field, given);
        this.#varint(number < 0 ? -2 * number - 1 : 2 * number);
        break;
      }
      case 'enum': {
        const number = field.numbers.get(given as string);
        if (number === undefined) {
          throw new TypeError(`\`${String(given)}\` is not a value of ${field.name}`);
        }
        this.#varint(number);
        break;
      }
      case 'message': {
        const { table } = (field.of as () => HasTable)();
        this.#sized(() => this.message(table, given as Value));
        break;
      }
      default: {
        const number = whole(field, given);
        if (number < 0) {
          throw new RangeError(`${field.name} is negative`);
        }
        this.#varint(number);
      }
    }
  }

  /** The length stands before what has it: most are short, and moved if they are not. */
  #sized(write: () => void): void {
    this.#need(1);
    const start = ++this.#at;
    write();
    const length = this.#at - start;
    const more = varintLength(length) - 1;
    if (more > 0) {
      this.#need(more);
      this.#buffer.copyWithin(start + more, start, this.#at);
    }
    this.#at = start - 1;
    this.#varint(length);
    this.#at += length;
  }

  #string(text: string): void {
    const most = text.length * 3;
    this.#need(most + 5);
    if (most < 128) {
      const length = this.#buffer.write(text, this.#at + 1, 'utf8');
      this.#buffer[this.#at] = length;
      this.#at += length + 1;
      return;
    }
    this.#varint(Buffer.byteLength(text, 'utf8'));
    this.#at += this.#buffer.write(text, this.#at, 'utf8');
  }

  #varint(value: number): void {
    this.#need(10);
    let rest = value;
    while (rest > 127) {
      this.#buffer[this.#at++] = (rest % 128) + 128;
      rest = Math.floor(rest / 128);
    }
    this.#buffer[this.#at++] = rest;
  }

  #need(bytes: number): void {
    if (this.#at + bytes > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#at + bytes));
      // All of it: a length may be written before what it is of.
      this.#buffer.copy(larger);
      this.#buffer = larger;
    }
  }
}

class Reader {
  #at = 0;

  constructor(private readonly buffer: Buffer) {}

  message(table: Table, end: number): Value {
    const value: Value = {};
    for (const field of table.fields) {
      if (field.kind === 'map') {
        value[field.name] = {};
      } else if (field.label === 'repeated') {
        value[field.name] = [];
      } else if (field.label === '') {
        if (field.kind === 'string') {
          value[field.name] = '';
        } else if (field.kind === 'bool') {
          value[field.name] = false;
        } else if (field.kind !== 'message' && field.kind !== 'enum') {
          value[field.name] = 0;
        }
      }
    }
    while (this.#at < end) {
      const tag = this.#varint();
      const field = table.byTag.get(tag);
      if (field === undefined) {
        this.#skip(tag % 8);
      } else if (field.kind === 'map') {
        const { key, text } = this.#entry(this.#end(end));
        (value[field.name] as Record<string, string>)[key] = text;
      } else if (field.label === 'repeated') {
        (value[field.name] as unknown[]).push(this.#field(field, end));
      } else {
        const read = this.#field(field, end);
        if (read !== undefined) {
          value[field.name] = read;
        }
      }
    }
    if (this.#at !== end) {
      throw new RangeError('a message is cut short');
    }
    return value;
  }

  #field(field: Field, end: number): unknown {
    switch (field.kind) {
      case 'string': {
        const last = this.#end(end);
        const text = this.buffer.toString('utf8', this.#at, last);
        this.#at = last;
        return text;
      }
      case 'bool':
        return this.#varint() !== 0;
      case 'sint32': {
        const number = this.#varint();
        return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
      }
      case 'enum': {
        const number = this.#varint();
        return number === 0 ? undefined : (field.words[number] ?? 'unknown');
      }
      case 'message':
        return this.message((field.of as () => HasTable)().table, this.#end(end));
      default:
        return this.#varint();
    }
  }

  #entry(end: number): { key: string; text: string } {
    let [key, text] = ['', ''];
    while (this.#at < end) {
      const tag = this.#varint();
      if (tag === 8 + BYTES || tag === 16 + BYTES) {
        const last = this.#end(end);
        const read = this.buffer.toString('utf8', this.#at, last);
        this.#at = last;
        if (tag === 8 + BYTES) {
          key = read;
        } else {
          text = read;
        }
      } else {
        this.#skip(tag % 8);
      }
    }
    return { key, text };
  }

  /** Where what has its length before it ends. */
  #end(within: number): number {
    const end = this.#varint() + this.#at;
    if (end > within) {
      throw new RangeError('a message is cut short');
    }
    return end;
  }

  #skip(wireType: number): void {
    if (wireType === VARINT) {
      this.#varint();
    } else if (wireType === 1) {
      this.#at += 8;
    } else if (wireType === BYTES) {
      this.#at = this.#end(this.buffer.length);
    } else if (wireType === 5) {
      this.#at += 4;
    } else {
      throw new RangeError('a message has a field that cannot be read');
    }
  }

  #varint(): number {
    let [value, factor] = [0, 1];
    for (;;) {
      const byte = this.buffer[this.#at++];
      if (byte === undefined) {
        throw new RangeError('a message is cut short');
      }
      value += (byte % 128) * factor;
      if (byte < 128) {
        return value;
      }
      factor *= 128;
    }
  }
}

function whole(field: Field, given: unknown): number {
  if (!Number.isSafeInteger(given)) {
    throw new TypeError(`${field.name} is not a whole number: ${String(given)}`);
  }
  return given as number;
}

function varintLength(value: number): number {
  let length = 1;
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) {
    length += 1;
  }
  return length;
}
