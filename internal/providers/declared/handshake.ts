import {
  type HandshakeAnswer,
  type ProviderCall,
  type Refused,
  refused,
  type Verification,
} from '../provider.ts'
import { type CallView, compilePlace, type HeaderTable } from './call.ts'
import { compileConditions, conditionOf } from './event.ts'
import type { SchemeKeys } from './keys.ts'
import type { Encoding, Handshake } from './schema.ts'
import { templateParts } from './template.ts'

/** Form of a challenge whose HMAC is returned. If callers are unverified, `check-handshake.ts` ensures that no event has this form. */
const oracleSafeForm = /^[A-Za-z0-9_-]{1,128}$/
const challengeForm = /^[\x20-\x7e]{1,1024}$/

/** Returns a function that answers a handshake, and returns undefined for any other call. The function never throws. */
export function compileHandshake(
  handshake: Handshake,
  {
    headers,
    hmacScheme,
    verify,
  }: {
    readonly headers: HeaderTable
    /** Position of the scheme whose keys make `{hmac}`; -1 if there is none. */
    readonly hmacScheme: number
    verify(view: CallView, keys: readonly SchemeKeys[]): Verification
  },
): (view: CallView, keys: readonly SchemeKeys[]) => HandshakeAnswer | Refused | undefined {
  const { method, when = [], challenge, hmac, isSigned } = handshake
  const applies = compileConditions(when.map(conditionOf))
  const read = challenge && compilePlace(challenge, headers)
  const form = hmac ? oracleSafeForm : challengeForm
  const reply = compileReply(handshake.reply)
  return (view, keys) => {
    if (methodOf(view.call) !== method) return undefined
    if (when.length > 0) {
      const body = view.body()
      if (body.kind === 'refused' || !applies(body.value)) return undefined
    }
    const reading = read?.(view)
    if (reading && reading.kind !== 'value') return undefined
    if (isSigned) {
      const verification = verify(view, keys)
      if (verification.kind === 'refused') return verification
    }
    const text = reading?.value ?? ''
    view.meter?.(text.length)
    if (reading && !form.test(text)) return refused('signature_malformed')
    const signed = hmac ? hmacText(keys[hmacScheme], text, hmac.encoding) : ''
    return signed === undefined ? refused('signature_mismatch') : reply(text, signed)
  }
}

function methodOf({ request }: ProviderCall): string {
  return request?.method ?? 'POST'
}

function hmacText(keys: SchemeKeys | undefined, text: string, encoding: Encoding): string | undefined {
  const key = keys?.kind === 'hmac' ? keys.keys[0] : undefined
  return key?.copy().update(text).digest(encoding)
}

function compileReply({
  status = 200,
  text,
  json,
  headers = {},
}: Handshake['reply']): (challenge: string, hmac: string) => HandshakeAnswer {
  const named = Object.entries(headers).map(([name, value]) => ({ name, render: compileReplyText(value) }))
  const headersOf = (challenge: string, hmac: string) =>
    named.length > 0 && {
      headers: Object.fromEntries(named.map(({ name, render }) => [name, render(challenge, hmac)])),
    }
  if (json === undefined) {
    const render = compileReplyText(text ?? '')
    return (challenge, hmac) => ({
      kind: 'answer',
      status,
      contentType: 'text/plain; charset=utf-8',
      ...headersOf(challenge, hmac),
      body: render(challenge, hmac),
    })
  }
  const members = Object.entries(json).map(([name, value]) => ({
    name,
    render: typeof value === 'string' ? compileReplyText(value) : () => value,
  }))
  return (challenge, hmac) => ({
    kind: 'answer',
    status,
    contentType: 'application/json',
    ...headersOf(challenge, hmac),
    body: JSON.stringify(
      Object.fromEntries(members.map(({ name, render }) => [name, render(challenge, hmac)])),
    ),
  })
}

function compileReplyText(template: string): (challenge: string, hmac: string) => string {
  const parts = templateParts(template)
  return (challenge, hmac) =>
    parts
      .map((part) => (part.kind === 'text' ? part.text : part.kind === 'challenge' ? challenge : hmac))
      .join('')
}
