/** One value of the chart that is set as a whole. */
export interface Value {
  readonly doc: string
  /** JSON Schema. */
  readonly schema: Readonly<Record<string, unknown>>
  readonly default: unknown
  /** Not shown in values.yaml. */
  readonly isHidden?: true
}

/** Values under one key. */
export interface Group {
  readonly doc: string
  readonly keys: Keys
  /** Other keys are nobody's mistake. */
  readonly isOpen?: true
}

/** Values and groups by name, in the order in which they are shown. */
export type Keys = Readonly<Record<string, Value | Group>>

/** A group. */
export function group(doc: string, keys: Keys): Group {
  return { doc, keys }
}

/** Text; `pattern` is a regular expression that it has to match as a whole. */
export function text(doc: string, value = '', pattern?: string): Value {
  const schema = { type: 'string', ...(pattern !== undefined && { pattern: `^(${pattern})$` }) }
  return { doc, schema, default: value }
}

/** A name of a Kubernetes object, or none. */
export function objectName(doc: string, value = ''): Value {
  return text(doc, value, '[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?|')
}

/** A key of a Secret. */
export function secretKey(doc: string, value: string): Value {
  return text(doc, value, '[-._a-zA-Z0-9]{1,253}')
}

/** A whole number within bounds, both included. */
export function count(doc: string, value: number, [minimum, maximum]: readonly [number, number]): Value {
  return { doc, schema: { type: 'integer', minimum, maximum }, default: value }
}

/** A number from 0 to 1. */
export function share(doc: string, value: number): Value {
  return { doc, schema: { type: 'number', minimum: 0, maximum: 1 }, default: value }
}

/** true or false. */
export function flag(doc: string, value: boolean): Value {
  return { doc, schema: { type: 'boolean' }, default: value }
}

/** One of some words, the first by default. */
export function choice(doc: string, ...words: readonly [string, ...string[]]): Value {
  return { doc, schema: { type: 'string', enum: words }, default: words[0] }
}

/** A list of texts. */
export function texts(doc: string, value: readonly string[] = [], pattern?: string): Value {
  const items = { type: 'string', minLength: 1, ...(pattern !== undefined && { pattern: `^(${pattern})$` }) }
  return { doc, schema: { type: 'array', items }, default: value }
}

/** TCP ports. */
export function ports(doc: string): Value {
  const items = { type: 'integer', minimum: 1, maximum: 65_535 }
  return { doc, schema: { type: 'array', items, maxItems: 64 }, default: [] }
}

/** Names with texts, as labels are. */
export function pairs(doc: string, value: Readonly<Record<string, string>> = {}): Value {
  return { doc, schema: { type: 'object', additionalProperties: { type: 'string' } }, default: value }
}

/** An object of Kubernetes, which the API server checks. */
export function kubeObject(doc: string, value: object = {}): Value {
  return { doc, schema: { type: 'object' }, default: value }
}

/** A list of objects of Kubernetes, which the API server checks. */
export function kubeList(doc: string, value: readonly object[] = []): Value {
  return { doc, schema: { type: 'array', items: { type: 'object' } }, default: value }
}

/** Whether it is one value. */
export function isValue(node: Value | Group): node is Value {
  return 'schema' in node
}
