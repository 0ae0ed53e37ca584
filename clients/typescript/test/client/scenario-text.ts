/** A file of scenarios, read line by line; `scenarios/README.md` says what the lines mean. */

const UNITS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export type Fields = Record<string, string>;

/** What came of a step, as words. */
export interface Outcome {
  readonly word: string;
  readonly fields: Fields;
  /** The secret of a grant, for later steps. */
  readonly key?: string;
}

export interface Expected {
  /** Undefined: any but a refusal, for questions, whose answer has no word. */
  readonly word: string | undefined;
  readonly fields: Fields;
}

export interface Step {
  readonly line: number;
  readonly text: string;
  readonly at: number;
  readonly actor: string;
  readonly hears: boolean;
  /** Without a name, the verb first. */
  readonly words: string[];
  readonly named: Map<string, string[]>;
  readonly expected: Expected | undefined;
}

export interface Scenario {
  readonly topic: string;
  readonly line: number;
  readonly claim: string;
  only?: string[];
  why: string;
  readonly limits: [string, number][];
  readonly steps: Step[];
}

export function matches(expected: Expected, actual: Outcome): boolean {
  const word = expected.word === undefined ? !actual.word.startsWith('refused') : expected.word === actual.word;
  return word && Object.entries(expected.fields).every(([name, wanted]) => wanted.split('|').includes(actual.fields[name] ?? ''));
}

export function told({ word = '', fields }: Outcome | Expected): string {
  return [word, ...Object.entries(fields).map(([name, value]) => `${name}='${value}'`)].join(' ');
}

export function read(topic: string, text: string): Scenario[] {
  const scenarios: Scenario[] = [];
  let inClaim = false;
  for (const [index, line] of text.split('\n').entries()) {
    if (line.startsWith('#')) {
      if (!inClaim) {
        const claim = line.slice(1).trim().replace(/\.+$/, '');
        scenarios.push({ topic, line: index + 1, claim, why: '', limits: [], steps: [] });
      }
      inClaim = true;
      continue;
    }
    inClaim = false;
    const scenario = scenarios.at(-1);
    if (line.trim() === '' || scenario === undefined) {
      continue;
    }
    if (/^\s/.test(line)) {
      scenario.steps.push(step(line, index + 1, scenario.steps));
    } else {
      directive(scenario, line);
    }
  }
  return scenarios;
}

export function duration(text: string): number | undefined {
  const [, number, unit] = /^(\d+)(ms|s|m|h|d)$/.exec(text) ?? [];
  return unit === undefined ? undefined : Number(number) * (UNITS[unit] ?? 0);
}

export function durationText(millis: number): string {
  return millis % 1_000 === 0 ? `${millis / 1_000}s` : `${millis}ms`;
}

function step(line: string, number: number, before: readonly Step[]): Step {
  // Single quotes keep a value with blanks together and vanish.
  const words = (line.match(/(?:[^\s']|'[^']*')+/g) ?? []).map((word) => word.replaceAll("'", ''));
  let at = duration(words[0] ?? '');
  if (at === undefined) {
    at = before.at(-1)?.at ?? 0;
  } else {
    words.shift();
  }
  const arrow = words.findIndex((word) => word === '->' || word === '<-');
  const said = arrow < 0 ? words : words.slice(0, arrow);
  const named = new Map<string, string[]>();
  const plain: string[] = [];
  for (const word of said.slice(1)) {
    const [, name, value] = /^([A-Za-z0-9._-]+)=(.*)$/s.exec(word) ?? [];
    if (name !== undefined && value !== undefined) {
      named.set(name, [...(named.get(name) ?? []), value]);
    } else {
      plain.push(word);
    }
  }
  return {
    line: number,
    text: line.trim(),
    at,
    actor: said[0] ?? '',
    hears: words[arrow] === '<-',
    words: plain,
    named,
    expected: arrow < 0 ? undefined : expectation(words.slice(arrow + 1)),
  };
}

function expectation(words: readonly string[]): Expected {
  const first = words.findIndex((word) => word.includes('='));
  const plain = first < 0 ? words : words.slice(0, first);
  const fields: Fields = {};
  for (const word of first < 0 ? [] : words.slice(first)) {
    const equals = word.indexOf('=');
    const value = word.slice(equals + 1);
    const length = duration(value);
    fields[word.slice(0, equals)] = length === undefined ? value : durationText(length);
  }
  return { word: plain.join(' ') || undefined, fields };
}

function directive(scenario: Scenario, line: string): void {
  const [, kind, rest = ''] = /^([^:]*):(.*)$/.exec(line) ?? [];
  if (kind === 'only') {
    const [faces = '', why = ''] = rest.split('--');
    scenario.only = faces.trim().split(/\s+/);
    scenario.why = why.trim();
  } else if (kind === 'limits') {
    for (const word of rest.trim().split(/\s+/)) {
      const [name = '', value = ''] = word.split('=');
      scenario.limits.push([name, duration(value) ?? Number(value)]);
    }
  } else {
    throw new Error(`${scenario.topic}: what is \`${line}\`?`);
  }
}
