import { isJsonObject } from '#internal/base/index.ts'

/** JSON schema of a document, of TypeBox or of Kubernetes. */
export type Schema = Readonly<Record<string, unknown>>

const rowsMax = 400
const depthMax = 8

const schemasOf = (value: unknown): readonly Schema[] =>
  Array.isArray(value) ? value.filter(isJsonObject) : []
const fieldsOf = (schema: Schema): readonly (readonly [string, Schema])[] =>
  Object.entries(isJsonObject(schema['properties']) ? schema['properties'] : {}).filter(
    (entry): entry is [string, Schema] => isJsonObject(entry[1]),
  )

export function cell(text: string): string {
  return text
    .replaceAll('|', '\\|')
    .replaceAll(/\s*\n\s*/g, ' ')
    .replaceAll(/<(?=[a-z/])/gi, '&lt;')
    .trim()
}

/** Columns: name, type, whether the field is required, description. */
export function fieldTable(schema: Schema, linkTo: (name: string) => string): string {
  const rows = rowsOf(schema, '', linkTo, 0).slice(0, rowsMax)
  if (rows.length === 0) return ''
  return ['| Field | Type | Required | |', '|---|---|---|---|', ...rows].join('\n')
}

function rowsOf(schema: Schema, prefix: string, linkTo: (name: string) => string, depth: number): string[] {
  if (depth > depthMax) return []
  const required = new Set(Array.isArray(schema['required']) ? schema['required'] : [])
  const own = fieldsOf(schema).flatMap(([name, field]) => {
    const path = `${prefix}${name}`
    const text = [descriptionOf(field), boundsOf(field), defaultOf(field)].filter(Boolean).join(' ')
    const row = `| \`${path}\` | ${cell(typeOf(field, linkTo))} | ${required.has(name) ? 'yes' : ''} | ${cell(text)} |`
    return [row, ...rowsOf(field, `${path}.`, linkTo, depth + 1)]
  })
  const items = isJsonObject(schema['items'])
    ? rowsOf(schema['items'], `${prefix.slice(0, -1)}[].`, linkTo, depth + 1)
    : []
  const more = schema['additionalProperties']
  const values = isJsonObject(more) ? rowsOf(more, `${prefix}*.`, linkTo, depth + 1) : []
  const alternatives = ['allOf', 'anyOf', 'oneOf'].flatMap((key) =>
    schemasOf(schema[key]).flatMap((each) => rowsOf(each, prefix, linkTo, depth + 1)),
  )
  return [...new Set([...own, ...items, ...values, ...alternatives])]
}

function descriptionOf(schema: Schema): string {
  return typeof schema['description'] === 'string' ? schema['description'] : ''
}

function defaultOf(schema: Schema): string {
  const value = schema['default']
  if (value === undefined || /by default|default:/i.test(descriptionOf(schema))) return ''
  const text = JSON.stringify(value)
  return text.length > 60 ? '' : `Default: \`${text}\`.`
}

export function typeOf(schema: Schema, linkTo: (name: string) => string): string {
  const { $ref: ref, enum: values, type } = schema
  if (typeof ref === 'string') return linkTo(ref.slice(ref.lastIndexOf('/') + 1))
  if ('const' in schema) return `\`${JSON.stringify(schema['const'])}\``
  if (Array.isArray(values)) return values.map((value) => `\`${JSON.stringify(value)}\``).join(', ')
  const alternatives = [...schemasOf(schema['anyOf']), ...schemasOf(schema['oneOf'])].filter(
    (each) =>
      each['type'] !== undefined ||
      each['$ref'] !== undefined ||
      'const' in each ||
      each['enum'] !== undefined,
  )
  if (alternatives.length > 0)
    return [...new Set(alternatives.map((each) => typeOf(each, linkTo)))].join(' or ')
  const names = Array.isArray(type) ? type.map(String) : [typeof type === 'string' ? type : 'any']
  return names
    .map((name) => (name === 'array' ? `array of ${itemOf(schema, linkTo)}` : named(name, schema)))
    .join(' or ')
}

function itemOf(schema: Schema, linkTo: (name: string) => string): string {
  return isJsonObject(schema['items']) ? typeOf(schema['items'], linkTo) : 'any'
}

function named(name: string, schema: Schema): string {
  const format = name === 'string' && typeof schema['format'] === 'string' ? ` (${schema['format']})` : ''
  return `${name}${format}`
}

const bounds: readonly (readonly [string, string])[] = [
  ['minLength', 'at least %s characters'],
  ['maxLength', 'at most %s characters'],
  ['minimum', 'at least %s'],
  ['maximum', 'at most %s'],
  ['minItems', 'at least %s items'],
  ['maxItems', 'at most %s items'],
  ['maxProperties', 'at most %s members'],
]

function boundsOf(schema: Schema): string {
  // No bounds if the description already states them.
  if (/\bat (most|least)\b|\d to \d/i.test(descriptionOf(schema))) return ''
  const texts = bounds.flatMap(([key, text]) =>
    typeof schema[key] === 'number' ? [text.replace('%s', String(schema[key]))] : [],
  )
  const pattern = schema['pattern']
  if (typeof pattern === 'string' && pattern.length <= 80 && !pattern.includes('`'))
    texts.push(`pattern \`${pattern}\``)
  const text = texts.join(', ')
  return text === '' ? '' : `${text[0]?.toUpperCase()}${text.slice(1)}.`
}

export function jsonBlock(value: unknown): string {
  return `\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\``
}
