import { createHash } from 'node:crypto'
import type { SecretManifest } from '../manifest.ts'
import { apiKeyEntry, previousSigningSecretEntry, signingSecretEntry } from '../secret-names.ts'
import type { GeneratedSecret, GenerationCause, TenantManifest } from '../source.ts'

/** On a generated Secret, asks for a new value: once for each new text that it is set to, such as a date. */
export const rotateAnnotation = 'latchkey.dev/rotate'
/** The text of the last rotation that was done. */
export const rotatedAnnotation = 'latchkey.dev/rotated'
/** RFC 3339: when the previous signing secret stops signing. */
export const previousUntilAnnotation = 'latchkey.dev/previous-until'
/** Hash of our entries as they were written, so that a later edit shows. The values are random: it tells nobody anything. */
export const contentAnnotation = 'latchkey.dev/content'

/** How long a rotated-out value goes on working, so that those who use it can be moved. */
export const rotatedLifeMs: number = 24 * 3_600_000

/** What a generated Secret is to hold from now on. */
export interface Generation {
  readonly cause: GenerationCause
  readonly values: Readonly<Record<string, string>>
  /** What is replaced; undefined when there is none. */
  readonly before: SecretManifest | undefined
  readonly previousUntilMs?: number | undefined
}

/** The whole Secret for what it is to hold, with what marks it as ours and untouched. Pure. */
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

/** Whether a rotation is wanted that has not been done. */
export function isRotationAsked({ annotations }: SecretManifest): boolean {
  const asked = annotations[rotateAnnotation]
  return asked !== undefined && asked !== annotations[rotatedAnnotation]
}

/** Whether our entries are no longer as we wrote them. One without our mark counts as untouched. */
export function isEdited({ annotations, values }: SecretManifest): boolean {
  const written = annotations[contentAnnotation]
  return written !== undefined && written !== contentHash(values)
}

/** When the previous signing secret ends; undefined where nothing says so. */
export function previousUntilMsOf({ annotations }: SecretManifest): number | undefined {
  const atMs = Date.parse(annotations[previousUntilAnnotation] ?? '')
  return Number.isNaN(atMs) ? undefined : atMs
}

const ownEntries = [apiKeyEntry, previousSigningSecretEntry, signingSecretEntry]

function contentHash(values: ReadonlyMap<string, string>): string {
  const own = ownEntries.flatMap((entry) => (values.has(entry) ? [[entry, values.get(entry)]] : []))
  return createHash('sha256').update(JSON.stringify(own), 'utf8').digest('hex')
}
