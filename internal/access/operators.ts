import { stat } from 'node:fs/promises'
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { parseDocument } from 'yaml'
import type { Action } from './actor.ts'

/** Roles of operators, with the actions that each permits. The chart has similar roles for the users of a cluster. */
export const operatorRoles = {
  viewer: ['see'],
  support: ['see', 'replay', 'simulate'],
  admin: ['see', 'replay', 'simulate', 'readPayloads', 'changeSettings'],
  // For services that verify events themselves before they ingest them, and that report their own usage.
  service: ['see', 'ingestEvents', 'emitUsage'],
} as const satisfies Readonly<Record<string, readonly Action[]>>

/** Role of an operator. */
export type OperatorRole = keyof typeof operatorRoles

/** Names of the roles. */
export const operatorRoleNames = Object.keys(operatorRoles) as readonly OperatorRole[]

/** Person or service that may use the back office with a token. */
export interface Operator {
  /** Letters, digits and `._@-`, at most 100 characters. */
  readonly name: string
  readonly roles: readonly OperatorRole[]
  /** Standard base64. */
  readonly tokenSha256: string
  /** Namespaces of the tenants that the operator may use. If undefined: all tenants, and the data without a tenant. */
  readonly namespaces: readonly string[] | undefined
  /** Expiry of the token, in milliseconds since the epoch; null if the token does not expire. */
  readonly endsAtMs: number | null
}

/** Operators that are known at present. */
export interface Operators {
  find(tokenSha256: string): Operator | undefined
}

/** Returns `Operators` with a constant list. */
export function fixedOperators(operators: readonly Operator[]): Operators {
  const byToken = new Map(operators.map((each) => [each.tokenSha256, each]))
  return { find: (tokenSha256) => byToken.get(tokenSha256) }
}

/** Returns whether a role of the operator permits an action. Does not check the tenant. */
export function operatorMay({ roles }: Operator, action: Action): boolean {
  return roles.some((role) => (operatorRoles[role] as readonly Action[]).includes(action))
}

/** Returns the SHA-256 of a token in standard base64. */
export function tokenDigest(token: string): string {
  return Bun.SHA256.hash(token, 'base64')
}

/** Pattern of an operator's name. */
export const operatorNamePattern = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$/

const operatorsMax = 1_000
const fileBytesMax = 1_048_576

const Entry = Type.Object(
  {
    name: Type.String({ pattern: operatorNamePattern.source }),
    roles: Type.Array(Type.Union(operatorRoleNames.map((name) => Type.Literal(name))), {
      minItems: 1,
      maxItems: operatorRoleNames.length,
    }),
    tokenSha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
    namespaces: Type.Optional(
      Type.Array(Type.String({ pattern: '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$' }), {
        minItems: 1,
        maxItems: 50,
      }),
    ),
    expiresAt: Type.Optional(Type.String({ maxLength: 40 })),
  },
  { additionalProperties: false },
)
const OperatorsFile = Type.Object(
  { operators: Type.Array(Entry, { maxItems: operatorsMax }) },
  { additionalProperties: false },
)

/** Operator as written in a file; `tokenSha256` is hexadecimal. */
export type OperatorEntry = Static<typeof Entry>

/**
 * Parses YAML or JSON, such as `operators: [{name: ada, roles: [admin], tokenSha256: …}]`. A problem names the place in the file and never
 * quotes a value.
 */
export function parseOperators(text: string):
  | {
      readonly kind: 'ok'
      readonly operators: readonly Operator[]
      readonly entries: readonly OperatorEntry[]
    }
  | { readonly kind: 'invalid'; readonly problem: string } {
  const document = parseDocument(text, { prettyErrors: false, strict: true })
  const [error] = document.errors
  if (error) return { kind: 'invalid', problem: `is not YAML: ${error.code}` }
  let value: unknown
  try {
    value = document.toJS({ maxAliasCount: 0 }) ?? { operators: [] }
  } catch {
    return { kind: 'invalid', problem: 'must not contain aliases' }
  }
  if (!Value.Check(OperatorsFile, value)) {
    const first = Value.Errors(OperatorsFile, value).First()
    return { kind: 'invalid', problem: `${first?.path || '/'}: ${first?.message ?? 'is invalid'}` }
  }
  const { operators: entries } = value
  for (const member of ['name', 'tokenSha256'] as const)
    if (new Set(entries.map((each) => each[member])).size < entries.length)
      return { kind: 'invalid', problem: `two operators have the same ${member}` }
  const operators: Operator[] = []
  for (const [at, { name, roles, tokenSha256, namespaces, expiresAt }] of entries.entries()) {
    const endsAtMs = expiresAt === undefined ? null : Date.parse(expiresAt)
    if (Number.isNaN(endsAtMs))
      return {
        kind: 'invalid',
        problem: `/operators/${at}/expiresAt: expected a time such as 2027-01-31T00:00:00Z`,
      }
    const digest = Buffer.from(tokenSha256, 'hex').toString('base64')
    operators.push({ name, roles, tokenSha256: digest, namespaces, endsAtMs })
  }
  return { kind: 'ok', operators, entries }
}

export interface OperatorsInFileOptions {
  readonly path: string
  /** Called when the file has become valid or invalid. While the file is invalid, its last valid content applies. */
  onRead(result: { readonly count: number } | { readonly problem: string }): void
}

/** Operators from a file. `refresh` reads the file again if it has changed. */
export class OperatorsInFile implements Operators {
  readonly #options: OperatorsInFileOptions
  #operators = fixedOperators([])
  #signature = ''

  constructor(options: OperatorsInFileOptions) {
    this.#options = options
  }

  find(tokenSha256: string): Operator | undefined {
    return this.#operators.find(tokenSha256)
  }

  /** Reads the file if it has changed since the last read. Never rejects. */
  async refresh(): Promise<void> {
    const { path, onRead } = this.#options
    const read = await this.#read(path).catch((error: unknown) => {
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
      const problem = `cannot be read (${code})`
      return { kind: 'invalid' as const, signature: `error ${code}`, problem }
    })
    if (read.signature === this.#signature) return
    this.#signature = read.signature
    if (read.kind === 'invalid') return onRead({ problem: `${path} ${read.problem}` })
    if (read.kind === 'same') return
    this.#operators = fixedOperators(read.operators)
    onRead({ count: read.operators.length })
  }

  async #read(path: string) {
    const found = await stat(path, { bigint: true })
    const { size, mtimeNs, ctimeNs, ino, mode } = found
    const signature = `${ino}.${size}.${mtimeNs}.${ctimeNs}`
    if (signature === this.#signature) return { kind: 'same' as const, signature }
    // Refuses a pipe, since reading one could wait forever.
    if (!found.isFile()) return { kind: 'invalid' as const, signature, problem: 'is not a file' }
    if (size > fileBytesMax)
      return { kind: 'invalid' as const, signature, problem: `is larger than ${fileBytesMax} bytes` }
    // Refuses a file that other users can write, since they could give themselves every right.
    if (mode & 0o022n) {
      const problem = 'is writable by other users: run chmod go-w on it'
      return { kind: 'invalid' as const, signature, problem }
    }
    return { ...parseOperators(await Bun.file(path).text()), signature }
  }
}
