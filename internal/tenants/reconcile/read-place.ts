import type { SecretManifest } from '../manifest.ts'
import { type SecretPlace, tenantLabel } from '../secret-names.ts'
import { tooManyNamespaces } from '../source.ts'
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
      if (place.generated) return { kind: 'generate', cause: 'missing', secret: undefined }
      return keep(
        'SecretMissing',
        `${shown} does not exist: create it (values stored earlier stay in force until the reference is removed)`,
      )
  }
}

/**
 * Suggests the label command only for unlabelled Secrets, so that following it cannot reassign another tenant's Secret.
 * Without `--overwrite`, so that the command fails if the Secret was labelled meanwhile.
 */
function notLabelled(
  shown: string,
  { namespace, name }: TenantFacts['manifest'],
  place: SecretPlace,
  labelled: string | undefined,
): string {
  if (labelled !== undefined)
    return `${shown} is labelled for another tenant and is not used: name a Secret of this tenant in the secretRef`
  return `${shown} has no label ${tenantLabel}. If it is this tenant's, hand it over: kubectl label secret -n ${namespace} ${place.name} ${tenantLabel}=${name}`
}

/** Reasons that hold for all Secrets of a namespace, and are to be read once. */
const ofNamespace: ReadonlySet<string> = new Set(['Forbidden', tooManyNamespaces])

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
