import { type Document, isMap, isNode, isScalar, LineCounter, parseAllDocuments } from 'yaml'
import { parseSecret, type SecretManifest } from '../manifest.ts'
import type { Problem } from '../model-rules.ts'
import { parseTenant } from '../parse.ts'
import type { SourceProblem, TenantManifest } from '../source.ts'

/** Uids of a folder's tenants: their resource has none of its own, so namespace and name stand for it. */
export const folderUidPrefix = 'folder:'

/** What one document of a file is. `identity` is kind, namespace and name; a broken one may not even tell that. */
export type FileDocument = { readonly line: number | undefined } & (
  | { readonly kind: 'tenant'; readonly identity: string; readonly tenant: TenantManifest }
  | { readonly kind: 'secret'; readonly identity: string; readonly secret: SecretManifest }
  | { readonly kind: 'broken'; readonly identity: string | undefined }
)

/** What a file holds. `unreadable`: not one document can be told from another. */
export interface ParsedFile {
  readonly kind: 'parsed' | 'unreadable'
  readonly documents: readonly FileDocument[]
  readonly problems: readonly SourceProblem[]
}

/** A file's name and how to tell its versions apart. */
export interface FileLabel {
  readonly file: string
  readonly version: string
}

/** Most documents that one file may hold. */
export const documentsMax = 1_000

/** The identity of a tenant or Secret within a folder. */
export function identityOf(kind: 'Tenant' | 'Secret', namespace: string, name: string): string {
  return `${kind} ${namespace}/${name}`
}

/**
 * Reads the documents of a YAML or JSON file. A broken document is a problem with its line and field and leaves the others
 * alone; broken syntax leaves none. Problems never quote a value.
 */
export function parseFile(text: string, label: FileLabel): ParsedFile {
  const lines = new LineCounter()
  const parsed = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, strict: true })
  const documents = 'empty' in parsed ? [] : parsed
  const { file } = label
  if (documents.length > documentsMax) {
    return unreadable([{ file, line: undefined, field: '', message: `holds over ${documentsMax} documents` }])
  }
  // The first of each document: what follows a slip is mostly the parser's own confusion.
  const errors = documents.flatMap((document) => document.errors.slice(0, 1))
  if (errors.length > 0) {
    const problems = errors.slice(0, 10).map((error) => {
      const { line, col } = lines.linePos(error.pos[0])
      return { file, line, field: '', message: `is no YAML at column ${col}: ${error.code}` }
    })
    return unreadable(problems)
  }
  const read = documents.filter((one) => !isEmpty(one)).map((one) => readDocument(one, label, lines))
  return {
    kind: 'parsed',
    documents: read.map(({ document }) => document),
    problems: read.flatMap(({ problems }) => problems),
  }
}

/** What a separator at the end or a document of comments alone leaves, as Helm prints them: nothing to read, nothing broken. */
function isEmpty({ contents }: YamlDocument): boolean {
  return contents === null || (isScalar(contents) && contents.value === null)
}

function unreadable(problems: SourceProblem[]): ParsedFile {
  return { kind: 'unreadable', documents: [], problems }
}

type YamlDocument = Document.Parsed

function readDocument(
  yaml: YamlDocument,
  label: FileLabel,
  lines: LineCounter,
): { document: FileDocument; problems: SourceProblem[] } {
  const line = lineOf(yaml, lines, 'metadata.name')
  const broken = (identity: string | undefined, problems: readonly Problem[]) => ({
    document: { kind: 'broken', identity, line } as const,
    problems: problems.map(({ path, message }) => {
      return { file: label.file, line: lineOf(yaml, lines, path), field: path, message }
    }),
  })
  const value = toValue(yaml)
  if (value === undefined) return broken(undefined, [{ path: '', message: 'repeats too much by aliases' }])
  const { kind, namespace, name } = headOf(value)
  const identity = name && identityOf(kind === 'Secret' ? 'Secret' : 'Tenant', namespace, name)
  if (kind === 'Secret') {
    const parsed = parseSecret(value, label.version)
    if (parsed.kind === 'invalid') return broken(identity, parsed.problems)
    const { secret } = parsed
    const own = identityOf('Secret', secret.namespace, secret.name)
    return { document: { kind: 'secret', identity: own, secret, line }, problems: [] }
  }
  if (kind !== 'Tenant') return broken(identity, [{ path: 'kind', message: 'must be Tenant or Secret' }])
  const parsed = parseTenant(value)
  if (parsed.kind === 'invalid') return broken(identity, parsed.problems)
  const { metadata, spec } = parsed.tenant
  const createdAtMs = Date.parse(metadata.creationTimestamp ?? '')
  const tenant = {
    uid: `${folderUidPrefix}${metadata.namespace}/${metadata.name}`,
    namespace: metadata.namespace,
    name: metadata.name,
    createdAtMs: Number.isNaN(createdAtMs) ? undefined : createdAtMs,
    spec,
  }
  const own = identityOf('Tenant', tenant.namespace, tenant.name)
  return { document: { kind: 'tenant', identity: own, tenant, line }, problems: [] }
}

/** The document as plain values; undefined when its aliases would blow it up. */
function toValue(yaml: YamlDocument): unknown {
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

/** The line of a field, or of the nearest one around it when it is missing. */
function lineOf(yaml: YamlDocument, lines: LineCounter, path: string): number | undefined {
  const segments = [...path.matchAll(/\[([0-9]+)\]|([^.[\]]+)/g)].map(([, index, name]) =>
    index === undefined ? (name ?? '') : Number(index),
  )
  for (let length = segments.length; length >= 0; length -= 1) {
    const offset = offsetOf(yaml, segments.slice(0, length))
    if (offset !== undefined) return lines.linePos(offset).line
  }
  return undefined
}

/** Where a field's name stands, or where an entry of a list begins. */
function offsetOf(yaml: YamlDocument, segments: readonly (string | number)[]): number | undefined {
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
