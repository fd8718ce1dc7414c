import { createHash } from 'node:crypto'
import {
  apiKeyEntry,
  previousSigningSecretEntry,
  type SecretManifest,
  type SecretPlace,
  signingSecretEntry,
  tenantLabel,
} from '../secret-manifest.ts'
import { type GeneratedSecret, type TenantManifest, tooManyNamespaces } from '../tenant-source.ts'
import type { Complaint } from './conditions.ts'
import type { TenantFacts } from './gather-tenant.ts'

/** Decision about a Secret that a spec refers to: use it, generate it, or keep the stored values and report a complaint. */
export type PlaceRead =
  | { readonly kind: 'found'; readonly secret: SecretManifest }
  | {
      readonly kind: 'generate'
      readonly cause: 'missing' | 'rotation' | 'edited'
      readonly secret: SecretManifest | undefined
    }
  | { readonly kind: 'keep'; readonly complaint: Complaint }

/** If `isStored` (Postgres has a value), a missing Secret that may be on another machine is not generated again. Pure. */
export function readPlace(facts: TenantFacts, place: SecretPlace, isStored: boolean): PlaceRead {
  const { namespace, uid } = facts.manifest
  const read = facts.secrets.get(place.name) ?? { kind: 'missing' }
  const shown = `Secret ${namespace}/${place.name}`
  switch (read.kind) {
    case 'found':
      if (!place.generated) return read
      if (read.secret.owner?.uid === uid) return readGenerated(read.secret)
      return nameTaken(shown)
    case 'unlabelled':
      if (place.generated) return nameTaken(shown)
      return keep('SecretNotLabelled', notLabelled(shown, facts.manifest, place, read.labelled))
    case 'unreadable':
      return keep(read.reason, ofNamespace.has(read.reason) ? read.message : `${shown}: ${read.message}`)
    case 'missing':
      if (place.generated && read.mayBeElsewhere && isStored) return keep('SecretElsewhere', elsewhere(shown))
      if (place.generated) return { kind: 'generate', cause: 'missing', secret: undefined }
      return keep(
        'SecretMissing',
        `${shown} does not exist: create it (values stored earlier stay in force until the reference is removed)`,
      )
  }
}

/** Suggests the label command only for a Secret without a tenant label, so that the command cannot take another tenant's Secret. */
function notLabelled(
  shown: string,
  { namespace, name }: TenantFacts['manifest'],
  place: SecretPlace,
  labelled: string | undefined,
): string {
  if (labelled !== undefined)
    return `${shown} has the label of another tenant and is not used: name a Secret of this tenant in the secretRef`
  return `${shown} has no label ${tenantLabel}. If it belongs to this tenant, label it: kubectl label secret -n ${namespace} ${place.name} ${tenantLabel}=${name}`
}

function elsewhere(shown: string): string {
  return `${shown} was generated, and its file is not in the data folder of this machine. Its values stay in force: share LATCHKEY_DATA_DIR among all machines that reconcile tenants, or restore the file, or name a Secret of your own in a secretRef`
}

/** Reasons that apply to a whole namespace. Their messages name no Secret, so that equal messages are shown only once. */
const ofNamespace: ReadonlySet<string> = new Set(['Forbidden', tooManyNamespaces])

function nameTaken(shown: string): PlaceRead {
  return keep(
    'NameTaken',
    `${shown} was not generated for this tenant and is not changed: rename it, or name it in a secretRef`,
  )
}

/** Replaces a Secret if a rotation is requested, even if it was edited. A Secret without the annotation of the hash is not edited. */
function readGenerated(secret: SecretManifest): PlaceRead {
  const { annotations, values } = secret
  const asked = annotations[rotateAnnotation]
  if (asked !== undefined && asked !== annotations[rotatedAnnotation])
    return { kind: 'generate', cause: 'rotation', secret }
  const written = annotations[contentAnnotation]
  if (written !== undefined && written !== contentHash(values))
    return { kind: 'generate', cause: 'edited', secret }
  return { kind: 'found', secret }
}

/** Removes the newline that editors and `echo` add. */
export function withoutTrailingNewline(text: string): { readonly text: string; readonly trimmed: boolean } {
  const trimmed = text.replace(/\r?\n$/, '')
  return { text: trimmed, trimmed: trimmed !== text }
}

function keep(reason: string, message: string): PlaceRead {
  return { kind: 'keep', complaint: { reason, message } }
}

/** Each new value of the annotation, such as a date, causes one rotation. */
export const rotateAnnotation = 'latchkey.dev/rotate'
export const rotatedAnnotation = 'latchkey.dev/rotated'
/** Time (RFC 3339) until which the previous signing secret stays valid. */
export const previousUntilAnnotation = 'latchkey.dev/previous-until'
/** Hash of the entries as Latchkey wrote them, to detect edits. Reveals nothing, because the values are random. */
export const contentAnnotation = 'latchkey.dev/content'

/** Time after a rotation in which both the old and the new value are valid. */
export const rotatedLifeMs: number = 24 * 3_600_000

export interface Generation {
  readonly cause: GeneratedSecret['cause']
  readonly values: Readonly<Record<string, string>>
  readonly before: SecretManifest | undefined
  readonly previousUntilMs?: number | undefined
}

/** Adds the annotations that mark the Secret as unedited. Pure. */
export function generatedSecret(
  manifest: TenantManifest,
  name: string,
  { cause, values, before, previousUntilMs }: Generation,
): GeneratedSecret {
  const rotated = before?.annotations[rotateAnnotation] ?? before?.annotations[rotatedAnnotation]
  return {
    namespace: manifest.namespace,
    name,
    values,
    annotations: {
      [contentAnnotation]: contentHash(new Map(Object.entries(values))),
      ...(rotated !== undefined && { [rotatedAnnotation]: rotated }),
      ...(previousUntilMs !== undefined && {
        [previousUntilAnnotation]: new Date(previousUntilMs).toISOString(),
      }),
    },
    owner: { uid: manifest.uid, name: manifest.name },
    cause,
    replaces: before?.version,
  }
}

/** Undefined without the annotation. */
export function previousUntilMsOf({ annotations }: SecretManifest): number | undefined {
  const atMs = Date.parse(annotations[previousUntilAnnotation] ?? '')
  return Number.isNaN(atMs) ? undefined : atMs
}

const ownEntries = [apiKeyEntry, previousSigningSecretEntry, signingSecretEntry]

function contentHash(values: ReadonlyMap<string, string>): string {
  const own = ownEntries.flatMap((entry) => (values.has(entry) ? [[entry, values.get(entry)]] : []))
  return createHash('sha256').update(JSON.stringify(own), 'utf8').digest('hex')
}
