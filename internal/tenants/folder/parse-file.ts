import { type Document, isMap, isNode, isScalar, LineCounter, parseAllDocuments } from 'yaml'
import type { ObjectPlace } from '#internal/kube/index.ts'
import { type TenantSpec, tenantApiVersion } from '../model.ts'
import { type Problem, parseTenant } from '../parse-tenant.ts'
import type { ProviderObject } from '../providers/provider-object.ts'
import { parseSecret, type SecretManifest } from '../secret-manifest.ts'
import type { TenantObject } from '../tenant-object.ts'
import { folderUidPrefix } from '../tenant-source.ts'

export type FolderTenant = TenantObject & { readonly spec: TenantSpec }

/** A problem in a manifest and its location. `line` counts from 1. */
export interface SourceProblem {
  readonly file: string
  readonly line: number | undefined
  readonly field: string
  readonly message: string
}

/** `identity` consists of kind, namespace and name; undefined for a broken document without a readable name. */
export type FileDocument = { readonly line: number | undefined } & (
  | {
      readonly kind: 'tenant'
      readonly identity: string
      readonly tenant: FolderTenant
      readonly isToDelete: boolean
    }
  | { readonly kind: 'secret'; readonly identity: string; readonly secret: SecretManifest }
  | { readonly kind: 'provider'; readonly identity: string; readonly provider: ProviderObject }
  | { readonly kind: 'broken'; readonly identity: string | undefined }
)

/** `unreadable`: the file could not be split into documents. */
export interface ParsedFile {
  readonly kind: 'parsed' | 'unreadable'
  readonly file: string
  readonly documents: readonly FileDocument[]
  readonly problems: readonly SourceProblem[]
}

/** Manifest annotation that requests the deletion of the tenant. The tenant's `deletionPolicy` says what happens to its data. */
const deleteAnnotation = 'latchkey.dev/delete'
const documentsMax = 1_000

/** Returns the identity of a document: kind, namespace and name. Providers have no namespace. */
export function identityOf(kind: 'Tenant' | 'Secret' | 'Provider', { namespace, name }: ObjectPlace): string {
  return kind === 'Provider' ? `${kind} ${name}` : `${kind} ${namespace}/${name}`
}

/**
 * Parses the documents of a YAML or JSON file. A broken document is reported with its line and field, and does not affect the others. A
 * syntax error makes the whole file unreadable. Problems never quote a value.
 * @param label name of the file, and a version that changes whenever the content of the file changes
 */
export function parseFile(
  text: string,
  label: { readonly file: string; readonly version: string },
): ParsedFile {
  const lines = new LineCounter()
  const parsed = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, strict: true })
  const documents = 'empty' in parsed ? [] : parsed
  const { file } = label
  if (documents.length > documentsMax) {
    const message = `has more than ${documentsMax} documents`
    return unreadable(file, [{ file, line: undefined, field: '', message }])
  }
  // Uses the first error of each document, because later ones are mostly consequences of it.
  const errors = documents.flatMap((document) => document.errors.slice(0, 1))
  if (errors.length > 0) {
    const problems = errors.slice(0, 10).map((error) => {
      const { line, col } = lines.linePos(error.pos[0])
      return { file, line, field: '', message: `is not YAML at column ${col}: ${error.code}` }
    })
    return unreadable(file, problems)
  }
  const read = documents.filter((one) => !isEmpty(one)).map((one) => readDocument(one, label, lines))
  return {
    kind: 'parsed',
    file,
    documents: read.map(({ document }) => document),
    problems: read.flatMap(({ problems }) => problems),
  }
}

/** Returns whether a document is empty, such as after a trailing separator or with only the comments that Helm prints. */
function isEmpty({ contents }: Document.Parsed): boolean {
  return contents === null || (isScalar(contents) && contents.value === null)
}

function unreadable(file: string, problems: SourceProblem[]): ParsedFile {
  return { kind: 'unreadable', file, documents: [], problems }
}

function readDocument(
  yaml: Document.Parsed,
  label: Parameters<typeof parseFile>[1],
  lines: LineCounter,
): { document: FileDocument; problems: SourceProblem[] } {
  const line = lineOfField(yaml, lines, 'metadata.name')
  const broken = (identity: string | undefined, problems: readonly Problem[]) => ({
    document: { kind: 'broken', identity, line } as const,
    problems: problems.map(({ path, message }) => {
      return { file: label.file, line: lineOfField(yaml, lines, path), field: path, message }
    }),
  })
  const value = toValue(yaml)
  if (value === undefined)
    return broken(undefined, [{ path: '', message: 'the document has too many aliases' }])
  const { kind, namespace, name } = headOf(value)
  const identity = name && identityOf(kindOf(kind), { namespace, name })
  if (kind === 'Secret') {
    const parsed = parseSecret(value, label.version)
    if (parsed.kind === 'invalid') return broken(identity, parsed.problems)
    const { secret } = parsed
    return {
      document: { kind: 'secret', identity: identityOf('Secret', secret), secret, line },
      problems: [],
    }
  }
  if (kind === 'Provider') {
    const parsed = parseProviderDocument(value)
    if ('path' in parsed) return broken(identity, [parsed])
    const own = identityOf('Provider', parsed.metadata)
    return { document: { kind: 'provider', identity: own, provider: parsed, line }, problems: [] }
  }
  if (kind !== 'Tenant')
    return broken(identity, [{ path: 'kind', message: 'must be Tenant, Secret or Provider' }])
  const parsed = parseTenant(value)
  if (parsed.kind === 'invalid') return broken(identity, parsed.problems)
  const { metadata, spec } = parsed.tenant
  const { namespace: space, name: title, creationTimestamp } = metadata
  const tenant = {
    metadata: {
      namespace: space,
      name: title,
      uid: `${folderUidPrefix}${space}/${title}`,
      generation: 1,
      ...(typeof creationTimestamp === 'string' && { creationTimestamp }),
    },
    spec,
  }
  const { annotations } = asRecord(asRecord(value).metadata)
  const isToDelete = asRecord(annotations)[deleteAnnotation] === 'true'
  const own = identityOf('Tenant', metadata)
  const document = { kind: 'tenant', identity: own, tenant, isToDelete, line } as const
  return { document, problems: [] }
}

function kindOf(kind: unknown): 'Tenant' | 'Secret' | 'Provider' {
  return kind === 'Secret' || kind === 'Provider' ? kind : 'Tenant'
}

const providerFields = ['apiVersion', 'kind', 'metadata', 'spec', 'status']

/** Parses a Provider without validating its spec: the reconciliation validates the spec and logs the result. */
function parseProviderDocument(value: unknown): ProviderObject | Problem {
  const { apiVersion, metadata, spec } = asRecord(value)
  const odd = Object.keys(asRecord(value)).find((field) => !providerFields.includes(field))
  if (odd !== undefined)
    return { path: odd, message: 'is not a field of a Provider: check its spelling and indentation' }
  if (apiVersion !== tenantApiVersion) return { path: 'apiVersion', message: `must be ${tenantApiVersion}` }
  const { name } = asRecord(metadata)
  if (typeof name !== 'string') return { path: 'metadata.name', message: 'is required' }
  if (typeof spec !== 'object' || spec === null) return { path: 'spec', message: 'is required' }
  return { metadata: { name, uid: `${folderUidPrefix}${name}`, generation: 1 }, spec }
}

/** Returns undefined if aliases expand too far. */
function toValue(yaml: Document.Parsed): unknown {
  try {
    return yaml.toJS({ maxAliasCount: 100 })
  } catch {
    return undefined
  }
}

function headOf(value: unknown): { kind: unknown; namespace: string; name: string | undefined } {
  const { kind, metadata } = asRecord(value)
  const { namespace, name } = asRecord(metadata)
  return {
    kind,
    namespace: typeof namespace === 'string' ? namespace : 'default',
    name: typeof name === 'string' && name !== '' ? name : undefined,
  }
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}

/** Returns the line of a field, such as `spec.providers[0].name`. For a missing field, returns the line of its nearest existing ancestor. */
export function lineOfField(yaml: Document.Parsed, lines: LineCounter, path: string): number | undefined {
  const segments = [...path.matchAll(/\[([0-9]+)\]|([^.[\]]+)/g)].map(([, index, name]) =>
    index === undefined ? (name ?? '') : Number(index),
  )
  for (let length = segments.length; length >= 0; length -= 1) {
    const offset = offsetOf(yaml, segments.slice(0, length))
    if (offset !== undefined) return lines.linePos(offset).line
  }
  return undefined
}

function offsetOf(yaml: Document.Parsed, segments: readonly (string | number)[]): number | undefined {
  const last = segments.at(-1)
  const parent = last === undefined ? yaml.contents : yaml.getIn(segments.slice(0, -1), true)
  if (last === undefined) return isNode(parent) ? parent.range?.[0] : undefined
  if (isMap(parent)) {
    const pair = parent.items.find(({ key }) => isScalar(key) && String(key.value) === String(last))
    return isScalar(pair?.key) ? pair.key.range?.[0] : undefined
  }
  const node = yaml.getIn(segments, true)
  return isNode(node) ? node.range?.[0] : undefined
}
