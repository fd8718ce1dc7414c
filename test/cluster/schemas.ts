import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ClusterAccess } from './cluster.ts'

interface OpenApi {
  readonly definitions: Readonly<Record<string, Definition>>
}

interface Definition {
  readonly type?: unknown
  readonly properties?: object
  readonly additionalProperties?: unknown
  readonly 'x-kubernetes-group-version-kind'?: readonly {
    readonly group: string
    readonly version: string
    readonly kind: string
  }[]
}

/** Types documented as strings that also accept numbers. */
const looser = {
  'io.k8s.apimachinery.pkg.util.intstr.IntOrString': { type: ['string', 'integer'] },
  'io.k8s.apimachinery.pkg.api.resource.Quantity': { type: ['string', 'number'] },
}

/**
 * Writes JSON schemas of all kinds that the API server knows, since kubeconform would fetch them from the internet. Unknown
 * fields are refused. Returns the schema location for kubeconform.
 */
export async function writeSchemas({ transport }: ClusterAccess, folder: string): Promise<string> {
  const answer = await transport.request({ method: 'GET', path: '/openapi/v2' })
  if (answer.kind !== 'ok') throw new Error(answer.message)
  const { definitions } = answer.value as OpenApi
  mkdirSync(folder, { recursive: true })
  const all = { definitions: closed({ ...definitions, ...looser }) }
  writeFileSync(join(folder, 'definitions.json'), JSON.stringify(all))
  for (const [name, definition] of Object.entries(definitions)) {
    const kinds = definition['x-kubernetes-group-version-kind'] ?? []
    const [only] = kinds
    if (only === undefined || kinds.length > 1) continue
    const parts = [only.kind, only.group.split('.')[0], only.version].filter(Boolean)
    const schema = { $ref: `definitions.json#/definitions/${name}` }
    writeFileSync(join(folder, `${parts.join('-').toLowerCase()}.json`), JSON.stringify(schema))
  }
  return join(folder, '{{.ResourceKind}}{{.KindSuffix}}.json')
}

/** Sets additionalProperties to false if all fields are known. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed)
  if (typeof value !== 'object' || value === null) return value
  const schema = Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, closed(inner)]))
  const isObject = schema['type'] === 'object' && 'properties' in schema
  const isOpen = 'additionalProperties' in schema || 'x-kubernetes-preserve-unknown-fields' in schema
  return isObject && !isOpen ? { ...schema, additionalProperties: false } : schema
}
