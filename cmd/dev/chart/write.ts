import { stringify } from 'yaml'
import { type Group, isValue, type Keys, type Value } from './kinds.ts'

const widthMax = 110

/** values.yaml: every key with its default and what it is. Pure. */
export function valuesYaml(keys: Keys, header: string): string {
  const blocks = Object.entries(keys).flatMap(([name, node]) => {
    const lines = linesOf(name, node, 0)
    return lines.length === 0 ? [] : [lines.join('\n')]
  })
  return `${header}\n${blocks.join('\n\n')}\n`
}

function linesOf(name: string, node: Value | Group, depth: number): string[] {
  const indent = '  '.repeat(depth)
  if (isValue(node) && node.isHidden) return []
  const comment = wrapped(node.doc, widthMax - indent.length - 2).map((line) => `${indent}# ${line}`)
  if (!isValue(node)) {
    const inner = Object.entries(node.keys).flatMap(([key, each]) => linesOf(key, each, depth + 1))
    return [...comment, `${indent}${name}:`, ...inner]
  }
  const written = stringify({ [name]: node.default }, { lineWidth: 0, compat: 'yaml-1.1' }).trimEnd()
  return [...comment, ...written.split('\n').map((line) => indent + line)]
}

function wrapped(doc: string, width: number): string[] {
  const lines: string[] = []
  for (const word of doc.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + word.length < width) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines
}

/** values.schema.json: types and bounds of every key; unknown ones are refused. Pure. */
export function valuesSchema(keys: Keys): string {
  const schema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Values of the chart latchkey',
    ...schemaOf({ doc: '', keys }),
  }
  return `${JSON.stringify(schema, undefined, 2)}\n`
}

function schemaOf(node: Value | Group): Record<string, unknown> {
  const described = node.doc === '' ? {} : { description: node.doc }
  if (isValue(node)) return { ...described, ...node.schema }
  const properties = Object.fromEntries(
    Object.entries(node.keys).map(([name, each]) => [name, schemaOf(each)]),
  )
  return { ...described, type: 'object', additionalProperties: node.isOpen === true, properties }
}
