import type { TenantManifest } from './source.ts'

/** Which Secret a tenant's field comes from. A generated one is made when it is absent. */
export interface SecretPlace {
  readonly name: string
  readonly generated: boolean
}

/** Key of a generated or brought API key in its Secret. */
export const apiKeyEntry = 'apiKey'
/** Key of a generated signing secret in its Secret. */
export const signingSecretEntry = 'signingSecret'

/** Key of the signing secret before a rotation, while it still signs. */
export const previousSigningSecretEntry = 'previousSigningSecret'
/** Label of every Secret that a tenant uses; its value is the tenant's name. */
export const tenantLabel = 'latchkey.dev/tenant'

/** The Secret that holds what signs deliveries. */
export function callbackSecretPlace({ name, spec }: TenantManifest): SecretPlace {
  const reference = spec.callback.signingSecretRef
  return reference === undefined
    ? { name: `${name}-callback`, generated: true }
    : { name: reference.name, generated: false }
}

/** The Secret that holds one API key. */
export function apiKeySecretPlace(
  { name }: TenantManifest,
  entry: TenantManifest['spec']['apiKeys'][number],
): SecretPlace {
  return entry.secretRef === undefined
    ? { name: `${name}-key-${entry.name}`, generated: true }
    : { name: entry.secretRef.name, generated: false }
}

/** Names of all Secrets that a tenant's plan reads, each once. */
export function secretNamesOf(manifest: TenantManifest): string[] {
  const names = new Set([callbackSecretPlace(manifest).name])
  for (const entry of manifest.spec.providers) {
    if (entry.secretRef !== undefined) names.add(entry.secretRef.name)
  }
  for (const entry of manifest.spec.apiKeys) names.add(apiKeySecretPlace(manifest, entry).name)
  return [...names]
}

/** Names of the Secrets that are generated for a tenant. */
export function generatedNamesOf(manifest: TenantManifest): ReadonlySet<string> {
  const places = manifest.spec.apiKeys.map((entry) => apiKeySecretPlace(manifest, entry))
  const all = [callbackSecretPlace(manifest), ...places]
  return new Set(all.filter(({ generated }) => generated).map(({ name }) => name))
}
