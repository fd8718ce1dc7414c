import type { SecretManifest } from '../manifest.ts'
import { type SecretPlace, tenantLabel } from '../secret-names.ts'
import type { Complaint } from './conditions.ts'
import type { TenantFacts } from './facts.ts'
import { isEdited, isRotationAsked } from './generated-secret.ts'

/** What a field's Secret gives: its content, the order to generate it, or a complaint while what is stored stays in force. */
export type PlaceRead =
  | { readonly kind: 'found'; readonly secret: SecretManifest }
  | {
      readonly kind: 'generate'
      readonly cause: 'missing' | 'rotation' | 'edited'
      /** What is there now and is to be replaced. */
      readonly secret: SecretManifest | undefined
    }
  | { readonly kind: 'keep'; readonly complaint: Complaint }

/** Decides what the state of a Secret means. Pure. */
export function readPlace(facts: TenantFacts, place: SecretPlace): PlaceRead {
  const { namespace, name, uid } = facts.manifest
  const read = facts.secrets.get(place.name) ?? { kind: 'missing' }
  const shown = `Secret ${namespace}/${place.name}`
  switch (read.kind) {
    case 'found':
      if (!place.generated) return read
      if (read.secret.owner?.uid === uid) return readGenerated(read.secret)
      return nameTaken(shown)
    case 'unlabelled':
      return place.generated
        ? nameTaken(shown)
        : keep(
            'SecretNotLabelled',
            `${shown} ${read.labelled === undefined ? 'is labelled for no tenant' : 'is labelled for another tenant'}: kubectl label secret --overwrite -n ${namespace} ${place.name} ${tenantLabel}=${name}`,
          )
    case 'unreadable':
      // What is forbidden is so for all of a namespace, and to be read once.
      return keep(read.reason, read.reason === 'Forbidden' ? read.message : `${shown}: ${read.message}`)
    case 'missing':
      if (place.generated) return { kind: 'generate', cause: 'missing', secret: undefined }
      return keep(
        'SecretMissing',
        `${shown} does not exist: create it (values stored earlier stay in force until the reference is removed)`,
      )
  }
}

function nameTaken(shown: string): PlaceRead {
  return keep(
    'NameTaken',
    `${shown} was not generated for this tenant and is left alone: rename it, or name it in a secretRef`,
  )
}

/** A rotation that is asked for replaces whatever stands there, edited or not. */
function readGenerated(secret: SecretManifest): PlaceRead {
  if (isRotationAsked(secret)) return { kind: 'generate', cause: 'rotation', secret }
  return isEdited(secret) ? { kind: 'generate', cause: 'edited', secret } : { kind: 'found', secret }
}

/** One trailing newline, as editors and `echo` leave it, is no part of a secret. */
export function withoutTrailingNewline(text: string): { readonly text: string; readonly trimmed: boolean } {
  const trimmed = text.replace(/\r?\n$/, '')
  return { text: trimmed, trimmed: trimmed !== text }
}

function keep(reason: string, message: string): PlaceRead {
  return { kind: 'keep', complaint: { reason, message } }
}
