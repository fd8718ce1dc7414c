import { Type as t } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { dnsLabel } from './model.ts'
import type { Problem } from './model-rules.ts'

/** Which resource a Secret was generated for: the owner reference that the generator wrote. */
export interface SecretOwner {
  readonly uid: string
  readonly name: string
}

/** A Secret as a source holds it. Values are text; `version` changes with the content and is safe to show. */
export interface SecretManifest {
  readonly namespace: string
  readonly name: string
  readonly values: ReadonlyMap<string, string>
  readonly version: string
  readonly annotations: Readonly<Record<string, string>>
  readonly owner: SecretOwner | undefined
}

/** What `parseSecret` found. */
export type ParsedSecret =
  | { readonly kind: 'ok'; readonly secret: SecretManifest }
  | { readonly kind: 'invalid'; readonly problems: readonly Problem[] }

const valuesMax = 64
const valueCharactersMax = 16_384

const Secret = t.Object(
  {
    apiVersion: t.Literal('v1'),
    kind: t.Literal('Secret'),
    metadata: t.Object({
      name: t.String({ pattern: '^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$' }),
      namespace: t.Optional(t.String({ pattern: dnsLabel })),
      annotations: t.Optional(t.Record(t.String(), t.String())),
      ownerReferences: t.Optional(
        t.Array(t.Object({ kind: t.String(), name: t.String(), uid: t.String() }), { maxItems: 16 }),
      ),
    }),
    type: t.Optional(t.String()),
    immutable: t.Optional(t.Boolean()),
    stringData: t.Optional(t.Record(t.String(), t.String({ maxLength: valueCharactersMax }))),
    data: t.Optional(t.Record(t.String(), t.String({ maxLength: valueCharactersMax * 2 }))),
  },
  { additionalProperties: false },
)

/**
 * Reads a Secret manifest as `kubectl apply` would: `stringData` wins over `data`, whose values are base64 of UTF-8. The
 * problems name fields and never a value.
 */
export function parseSecret(value: unknown, version: string): ParsedSecret {
  if (!Value.Check(Secret, value)) {
    const errors = [...Value.Errors(Secret, value)].slice(0, 20)
    return {
      kind: 'invalid',
      problems: errors.map(({ path }) => problem(dotted(path), 'is not what a Secret holds here')),
    }
  }
  const values = new Map<string, string>()
  for (const [name, encoded] of Object.entries(value.data ?? {})) {
    const text = decodeBase64(encoded)
    if (text === undefined)
      return invalid(`data.${name}`, 'must be base64 of UTF-8 text (stringData takes it as it is)')
    values.set(name, text)
  }
  for (const [name, text] of Object.entries(value.stringData ?? {})) values.set(name, text)
  if (values.size > valuesMax) return invalid('', `must hold at most ${valuesMax} values`)
  const { name, namespace, annotations, ownerReferences } = value.metadata
  const owner = ownerReferences?.find(({ kind }) => kind === 'Tenant')
  return {
    kind: 'ok',
    secret: {
      name,
      namespace: namespace ?? 'default',
      values,
      version,
      annotations: annotations ?? {},
      owner: owner && { uid: owner.uid, name: owner.name },
    },
  }
}

function decodeBase64(encoded: string): string | undefined {
  const compact = encoded.replaceAll(/[\r\n ]/g, '')
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(compact) || compact.length % 4 !== 0) return undefined
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.from(compact, 'base64'))
  } catch {
    return undefined
  }
}

function dotted(pointer: string): string {
  return pointer.split('/').slice(1).join('.')
}

function problem(path: string, message: string): Problem {
  return { path, message }
}

function invalid(path: string, message: string): ParsedSecret {
  return { kind: 'invalid', problems: [problem(path, message)] }
}
