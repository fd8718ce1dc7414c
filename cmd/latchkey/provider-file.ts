import { readFile, stat } from 'node:fs/promises'
import { LineCounter, parseAllDocuments } from 'yaml'
import {
  declarationNotes,
  type ParsedProvider,
  parseProvider,
  reservedName,
} from '#internal/providers/index.ts'
import { type Problem as FieldProblem, lineOfField } from '#internal/tenants/index.ts'
import { exitCodes, type Problem } from './cli.ts'

/** Maximum bytes of a declaration, and of the file of a secret. */
const declarationBytesMax = 1024 * 1024
/** Maximum bytes of a captured call: a body of 25 MiB in base64, and its headers. */
export const capturedCallBytesMax = 64 * 1024 * 1024

export type ReadProvider =
  | (Extract<ParsedProvider, { readonly kind: 'ok' }> & {
      /** Warnings about what is permitted but most likely a mistake, each with its line. */
      readonly notes: readonly string[]
      /** Returns a problem of the declaration as a line that begins with `file:line`. The path of the problem begins with `spec`. */
      lineOf(problem: FieldProblem): string
    })
  | { readonly kind: 'invalid'; readonly problems: readonly string[] }

/** Reads a file. Returns a problem if it is missing or, without reading it, too long. */
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

/** Accepts one YAML document. Problems begin with `file:line`. */
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
    const problem = `is not YAML at column ${col}: ${error.message}`
    return { kind: 'invalid', problems: [`${path}:${line}: ${problem}`] }
  }
  const provider = parseProvider(document.toJS({ maxAliasCount: 100 }))
  const reserved = provider.kind === 'ok' ? reservedName(provider.declaration) : undefined
  const lineOf = (each: FieldProblem) =>
    `${path}:${lineOfField(document, lines, each.path) ?? 1}: ${each.path} ${each.message}`
  if (provider.kind === 'ok' && reserved === undefined)
    return { ...provider, notes: declarationNotes(provider.declaration).map(lineOf), lineOf }
  const found = provider.kind === 'ok' ? [] : provider.problems
  return { kind: 'invalid', problems: [...found, ...(reserved ? [reserved] : [])].map(lineOf) }
}
