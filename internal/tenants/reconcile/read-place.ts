import type { SecretManifest } from '../manifest.ts'
import type { SecretPlace } from '../secret-names.ts'
import type { Complaint } from './conditions.ts'
import type { TenantFacts } from './facts.ts'

/** What a field's Secret gives: its content, the order to generate it, or a complaint while what is stored stays in force. */
export type PlaceRead =
  | { readonly kind: 'found'; readonly secret: SecretManifest }
  | { readonly kind: 'generate' }
  | { readonly kind: 'keep'; readonly complaint: Complaint }

/** Decides what the state of a Secret means. Pure. */
export function readPlace(facts: TenantFacts, place: SecretPlace): PlaceRead {
  const { namespace, uid } = facts.manifest
  const read = facts.secrets.get(place.name) ?? { kind: 'missing' }
  const shown = `Secret ${namespace}/${place.name}`
  switch (read.kind) {
    case 'found':
      if (!place.generated || read.secret.owner?.uid === uid) return read
      return keep(
        'NameTaken',
        `${shown} was not generated for this tenant and is left alone: rename it, or name it in a secretRef`,
      )
    case 'unreadable':
      return keep(read.reason, `${shown}: ${read.message}`)
    case 'missing':
      if (place.generated) return { kind: 'generate' }
      return keep(
        'SecretMissing',
        `${shown} does not exist: create it (values stored earlier stay in force until the reference is removed)`,
      )
  }
}

/** One trailing newline, as editors and `echo` leave it, is no part of a secret. */
export function withoutTrailingNewline(text: string): { readonly text: string; readonly trimmed: boolean } {
  const trimmed = text.replace(/\r?\n$/, '')
  return { text: trimmed, trimmed: trimmed !== text }
}

function keep(reason: string, message: string): PlaceRead {
  return { kind: 'keep', complaint: { reason, message } }
}
