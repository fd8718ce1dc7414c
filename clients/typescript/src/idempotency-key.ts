/** Maximum characters of an idempotency key. */
export const keyCharsMax = 200

/** Value of the header `Idempotency-Key`. */
export type KeyHeader =
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'missing' }
  | { readonly kind: 'malformed' }

const text = String.raw`"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"`
const bareItem = [
  String.raw`-?\d{1,12}\.\d{1,3}`,
  String.raw`-?\d{1,15}`,
  text.replace('((?:', '(?:(?:'),
  "[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*",
  ':[A-Za-z0-9+/=]*:',
  String.raw`\?[01]`,
  String.raw`@-?\d{1,15}`,
  String.raw`%"(?:[\x20\x21\x23\x24\x26-\x7e]|%[0-9a-f]{2})*"`,
].join('|')
/** An item of RFC 9651 whose value is a string. Parameters are allowed and ignored. */
const quoted = new RegExp(`^ *${text}(?:; *[a-z*][a-z0-9_.*-]*(?:=(?:${bareItem}))?)* *$`)
/** Visible ASCII without the characters that begin or end an item. */
const unquoted = /^ *([!#-+\--:<-[\]-~]+) *$/

/**
 * Parses the header: a structured-field string (RFC 9651) of 1 to 200 characters, or with `acceptUnquoted` also the bare text. Two such
 * headers arrive as one text with a comma, which is malformed.
 */
export function parseKeyHeader(value: string | null | undefined, acceptUnquoted = false): KeyHeader {
  if (value === null || value === undefined) return { kind: 'missing' }
  const escaped = quoted.exec(value)?.[1] ?? (acceptUnquoted ? unquoted.exec(value)?.[1] : undefined)
  const key = escaped?.replaceAll(/\\(["\\])/g, '$1') ?? ''
  return key.length >= 1 && key.length <= keyCharsMax ? { kind: 'key', key } : { kind: 'malformed' }
}
