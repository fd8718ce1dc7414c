import { decodeUtf8 } from '../../event-body.ts'
import type { RefusalCause } from '../../provider.ts'

/** The two fields of a call; '' for one that did not come. */
export type GatewayForm =
  | { readonly kind: 'form'; readonly signature: string; readonly payload: string }
  | { readonly kind: 'refused'; readonly cause: RefusalCause }

const signatureNames: ReadonlySet<string> = new Set(['gateway_signature', 'bt_signature'])
const payloadNames: ReadonlySet<string> = new Set(['gateway_payload', 'bt_payload'])
const malformed: GatewayForm = { kind: 'refused', cause: 'signature_malformed' }

/**
 * Reads the form that a call is, by the neutral names or the vendor's. Fields that say different things are a conflict, so that
 * never one of them is verified and another used. Other fields are passed over.
 */
export function readForm(body: Uint8Array): GatewayForm {
  const text = decodeUtf8(body)
  if (text === undefined) return malformed
  let signature = ''
  let payload = ''
  for (const pair of text.split('&')) {
    const at = pair.indexOf('=')
    const name = at < 0 ? pair : pair.slice(0, at)
    if (!signatureNames.has(name) && !payloadNames.has(name)) continue
    const value = decodeField(at < 0 ? '' : pair.slice(at + 1))
    if (value === undefined) return malformed
    const known = signatureNames.has(name) ? signature : payload
    if (known !== '' && known !== value) return { kind: 'refused', cause: 'headers_conflict' }
    if (signatureNames.has(name)) signature = value
    else payload = value
  }
  return { kind: 'form', signature, payload }
}

function decodeField(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}
