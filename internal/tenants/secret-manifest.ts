import { Type as t } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Problem } from './parse-tenant.ts'
import { notificationFormats } from './spec-destinations.ts'
import { dnsLabel } from './spec-fields.ts'
import type { TenantManifest } from './tenant-source.ts'

/** `version` changes with the content and contains no secret. */
export interface SecretManifest {
  readonly namespace: string
  readonly name: string
  readonly values: ReadonlyMap<string, string>
  readonly version: string
  readonly annotations: Readonly<Record<string, string>>
  readonly owner:
    | {
        readonly uid: string
        readonly name: string
      }
    | undefined
}

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

/** Parses like `kubectl apply`: `stringData` takes precedence over `data` (base64 of UTF-8). Problems never contain values. */
export function parseSecret(
  value: unknown,
  version: string,
):
  | { readonly kind: 'ok'; readonly secret: SecretManifest }
  | { readonly kind: 'invalid'; readonly problems: readonly Problem[] } {
  const invalid = (...problems: readonly Problem[]) => ({ kind: 'invalid', problems }) as const
  if (!Value.Check(Secret, value)) {
    const errors = [...Value.Errors(Secret, value)].slice(0, 20)
    const message = 'is not a valid field of a Secret'
    return invalid(...errors.map(({ path }) => ({ path: path.split('/').slice(1).join('.'), message })))
  }
  const values = new Map<string, string>()
  for (const [name, encoded] of Object.entries(value.data ?? {})) {
    const text = decodeBase64(encoded)
    if (text === undefined)
      return invalid({
        path: `data.${name}`,
        message: 'must be base64 of UTF-8 text (use stringData for plain text)',
      })
    values.set(name, text)
  }
  for (const [name, text] of Object.entries(value.stringData ?? {})) values.set(name, text)
  if (values.size > valuesMax) return invalid({ path: '', message: `must hold at most ${valuesMax} values` })
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

/** `generated`: Latchkey creates the Secret when it is missing. */
export interface SecretPlace {
  readonly name: string
  readonly generated: boolean
}

export const apiKeyEntry = 'apiKey'
export const signingSecretEntry = 'signingSecret'
/** Entry of the previous signing secret, present while it still signs deliveries. */
export const previousSigningSecretEntry = 'previousSigningSecret'
/** Label of a Secret, whose value is the name of the tenant that the Secret belongs to. */
export const tenantLabel = 'latchkey.dev/tenant'

/** Returns the Secret that signs deliveries; undefined for a tenant without a callback. */
export function callbackSecretPlace({ name, spec }: TenantManifest): SecretPlace | undefined {
  if (spec.callback === undefined) return undefined
  const reference = spec.callback.signingSecretRef
  return reference === undefined
    ? { name: `${name}-callback`, generated: true }
    : { name: reference.name, generated: false }
}

/** Returns the Secret that signs notifications; undefined if they are not signed. */
export function notificationsSecretPlace({ name, spec }: TenantManifest): SecretPlace | undefined {
  const { notifications } = spec
  if (notifications === undefined || !notificationFormats[notifications.format].isSigned) return undefined
  const reference = notifications.signingSecretRef
  return reference === undefined
    ? { name: `${name}-notifications`, generated: true }
    : { name: reference.name, generated: false }
}

/** Returns the Secret with the URL of notifications; undefined if the URL is in the Tenant itself. */
export function notificationsUrlPlace({ spec }: TenantManifest): SecretPlace | undefined {
  const reference = spec.notifications?.urlSecretRef
  return reference && { name: reference.name, generated: false }
}

export function apiKeySecretPlace(
  { name }: TenantManifest,
  entry: TenantManifest['spec']['apiKeys'][number],
): SecretPlace {
  return entry.secretRef === undefined
    ? { name: `${name}-key-${entry.name}`, generated: true }
    : { name: entry.secretRef.name, generated: false }
}

export function secretNamesOf(manifest: TenantManifest): string[] {
  const names = new Set(deliverySecretPlaces(manifest).map(({ name }) => name))
  for (const entry of manifest.spec.providers) {
    if (entry.secretRef !== undefined) names.add(entry.secretRef.name)
  }
  for (const entry of manifest.spec.apiKeys) names.add(apiKeySecretPlace(manifest, entry).name)
  return [...names]
}

export function generatedNamesOf(manifest: TenantManifest): ReadonlySet<string> {
  const places = manifest.spec.apiKeys.map((entry) => apiKeySecretPlace(manifest, entry))
  const all = [...deliverySecretPlaces(manifest), ...places]
  return new Set(all.filter(({ generated }) => generated).map(({ name }) => name))
}

function deliverySecretPlaces(manifest: TenantManifest): SecretPlace[] {
  const places = [
    callbackSecretPlace(manifest),
    notificationsSecretPlace(manifest),
    notificationsUrlPlace(manifest),
  ]
  return places.flatMap((place) => place ?? [])
}
