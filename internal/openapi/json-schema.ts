import type { TSchema } from '@sinclair/typebox'

/** A JSON Schema (2020-12) as it stands in an OpenAPI 3.1 document. */
export type JsonSchema = { readonly [keyword: string]: unknown }

/**
 * Turns one of our TypeBox schemas into plain JSON Schema: a regular expression with flags becomes a string's pattern, which engines
 * without Unicode properties understand too.
 */
export function toJsonSchema(schema: TSchema): JsonSchema {
  return convert(schema) as JsonSchema
}

function convert(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(convert)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
  const fields = Object.fromEntries(entries.map(([name, inner]) => [name, convert(inner)]))
  return fields.type === 'RegExp' ? textSchema(fields) : fields
}

function textSchema(schema: Record<string, unknown>): JsonSchema {
  const { source, flags: _flags, type: _type, expected: _expected, ...rest } = schema
  const [, characters = '', least = '0', most = '0'] = /^\^(.*)\{(\d+),(\d+)\}\$$/.exec(String(source)) ?? []
  const plain = characters === '[^]' ? {} : { pattern: `^${portable(characters)}*$` }
  return { type: 'string', minLength: Number(least), maxLength: Number(most), ...plain, ...rest }
}

/**
 * Writes out control characters, and leaves out lone surrogates, which UTF-8 does not carry: the server refuses one that is written
 * as an escape, which no portable pattern can say.
 */
function portable(characters: string): string {
  return characters.replaceAll('\\p{Cc}', '\\u0000-\\u001f\\u007f-\\u009f').replaceAll('\\p{Cs}', '')
}
