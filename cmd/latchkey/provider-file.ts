import { readFile, stat } from 'node:fs/promises'
import { LineCounter, parseAllDocuments } from 'yaml'
import { type ParsedProvider, parseProvider, reservedName } from '#internal/intake/index.ts'
import { lineOfField } from '#internal/tenants/index.ts'
import { exitCodes, type Problem } from './cli.ts'

/** Maximum bytes of a declaration, and of the file of a secret. */
const declarationBytesMax = 1024 * 1024
/** Maximum bytes of a captured call: a body of 25 MiB in base64, and its headers. */
export const capturedCallBytesMax = 64 * 1024 * 1024

/** A declaration in a file, or what is wrong with it, each problem with its line. */
export type ReadProvider =
  | Extract<ParsedProvider, { readonly kind: 'ok' }>
  | { readonly kind: 'invalid'; readonly problems: readonly string[] }

/** Reads a text file. Returns a problem if there is none, or, before it is read, if it is too long. */
export async function readText(path: string, bytesMax = declarationBytesMax): Promise<string | Problem> {
  try {
    const { size } = await stat(path)
    if (size > bytesMax)
      return { problem: `${path} has more than ${bytesMax} bytes`, exitCode: exitCodes.misused }
    return await readFile(path, 'utf8')
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable'
    return { problem: `${path} could not be read: ${reason}`, exitCode: exitCodes.misused }
  }
}

/** Parses the text of a declaration, which is one YAML document. Problems begin with `file:line`. */
export function parseProviderFile(path: string, text: string): ReadProvider {
  const lines = new LineCounter()
  const parsed = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, strict: true })
  const documents = 'empty' in parsed ? [] : parsed
  const [document] = documents
  if (document === undefined || documents.length > 1)
    return { kind: 'invalid', problems: [`${path}: must have one YAML document with a Provider`] }
  const [error] = document.errors
  if (error !== undefined) {
    const { line, col } = lines.linePos(error.pos[0])
    return { kind: 'invalid', problems: [`${path}:${line}: is not YAML at column ${col}: ${error.code}`] }
  }
  const provider = parseProvider(document.toJS({ maxAliasCount: 100 }))
  const reserved = provider.kind === 'ok' ? reservedName(provider.declaration) : undefined
  if (provider.kind === 'ok' && reserved === undefined) return provider
  const found = provider.kind === 'ok' ? [] : provider.problems
  const problems = [...found, ...(reserved ? [reserved] : [])].map((each) => {
    const line = lineOfField(document, lines, each.path) ?? 1
    return `${path}:${line}: ${each.path} ${each.message}`
  })
  return { kind: 'invalid', problems }
}
