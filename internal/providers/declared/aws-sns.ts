import { verify } from 'node:crypto'
import { type JsonObject } from '#internal/base/index.ts'
import { type Refused, refused, type Verification } from '../provider.ts'
import type { KeyLocation } from '../vendor-keys/published-keys.ts'
import { type CallView } from './call.ts'
import { parseTime } from './event.ts'
import type { SchemeKeys } from './keys.ts'
import type { Scheme } from './schema.ts'
import { decodeText, isInWindow, verdicts } from './signature.ts'

// Amazon SNS messages: https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message-verify-message-signature.html, read
// 2026-11-26.

/** Types of messages. The two confirmations have other signed members than a notification. */
const messageTypes = ['Notification', 'SubscriptionConfirmation', 'UnsubscribeConfirmation'] as const

const notificationMembers = ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type']
const confirmationMembers = ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type']

/** `SignatureVersion`, `SigningCertURL` and `UnsubscribeURL` are not signed. */
export const snsSignedMembers: readonly string[] = [
  ...new Set([...notificationMembers, ...confirmationMembers]),
]

/** Hash algorithms by `SignatureVersion`. */
const hashes: Readonly<Record<string, string>> = { '1': 'sha1', '2': 'sha256' }

/** ARN of a topic. The strict form of the region ensures that `sns.<region>` is no other host of the vendor. */
const arnForm = /^arn:aws(-[a-z]+)*:sns:([a-z]{2}(?:-[a-z]+)+-[0-9]{1,2}):[0-9]{12}:[A-Za-z0-9_.-]{1,256}$/
const certificateName = /^SimpleNotificationService-[A-Za-z0-9]{1,128}\.pem$/
const tokenForm = /^[A-Za-z0-9]{1,1024}$/

interface Message {
  readonly type: (typeof messageTypes)[number]
  readonly topicArn: string
  readonly hash: string
  readonly atMs: number
  readonly body: JsonObject
}

/** Accepts messages for a topic whose ARN is a secret of the tenant. */
export function compileSns({ toleranceSeconds }: Scheme): {
  locate(view: CallView, keys: SchemeKeys, value: string): KeyLocation | Refused
  verify(view: CallView, keys: SchemeKeys, value: string): Verification
} {
  return {
    locate(view, keys, value) {
      const message = readMessage(view, keys)
      if (message.kind === 'refused') return message
      if (decodeText(value, 'base64') === undefined) return refused('signature_malformed')
      const url = certificateUrl(message)
      return url === undefined ? refused('certificate_url_refused') : { kind: 'located', source: 'sns', url }
    },
    verify(view, keys, value) {
      const message = readMessage(view, keys)
      if (message.kind === 'refused') return message
      const signature = decodeText(value, 'base64')
      if (signature === undefined) return verdicts.malformed
      const { published, nowMs, signatureAgeMsMax } = view.call
      const [signer] = published?.source === 'sns' ? published.keys : []
      if (published === undefined || signer === undefined) return verdicts.mismatch
      const content = signedText(message)
      view.trace?.({ kind: 'joined', content: [content] })
      view.meter?.(content.length)
      if (!verify(message.hash, Buffer.from(content), signer.key, signature)) return verdicts.mismatch
      if (nowMs < published.validFromMs || nowMs > published.validToMs)
        return refused('certificate_outside_dates')
      const ageMsMax = toleranceSeconds === undefined ? signatureAgeMsMax : toleranceSeconds * 1000
      return isInWindow(message.atMs, nowMs, ageMsMax) ? verdicts.verified : verdicts.outside
    },
  }
}

/** Reads a message. Refuses it if its topic is not configured by the tenant. */
function readMessage(view: CallView, keys: SchemeKeys): (Message & { kind: 'message' }) | Refused {
  const body = view.body()
  if (body.kind === 'refused') return body
  const textOf = (name: string) => {
    const value = body.value[name]
    return typeof value === 'string' ? value : ''
  }
  const type = messageTypes.find((each) => each === textOf('Type'))
  const hash = hashes[textOf('SignatureVersion')]
  if (type === undefined || hash === undefined) return refused('scheme_unknown')
  const topicArn = textOf('TopicArn')
  const isOwn = keys.kind === 'published' && keys.identities.some(({ text }) => text === topicArn)
  if (!isOwn || !arnForm.test(topicArn)) return refused('signature_mismatch')
  const atMs = parseTime(textOf('Timestamp'), 'iso')
  if (atMs === undefined) return refused('signature_malformed')
  return { kind: 'message', type, topicArn, hash, atMs, body: body.value }
}

function originOf(topicArn: string): string | undefined {
  const [, partition = '', region] = arnForm.exec(topicArn) ?? []
  if (region === undefined) return undefined
  return `https://sns.${region}.amazonaws.com${partition === '-cn' ? '.cn' : ''}`
}

/** Returns undefined unless the address is at the host of the topic's region, compared as text. */
function certificateUrl({ topicArn, body }: Message): string | undefined {
  const url = body['SigningCertURL']
  const start = `${originOf(topicArn)}/`
  const isKnown =
    typeof url === 'string' && url.startsWith(start) && certificateName.test(url.slice(start.length))
  return isKnown ? url : undefined
}

/** Name and value of each signed member that is present, each with a line feed. */
function signedText({ type, body }: Message): string {
  const names = type === 'Notification' ? notificationMembers : confirmationMembers
  return names
    .flatMap((name) => {
      const value = body[name]
      return typeof value === 'string' ? [`${name}\n${value}\n`] : []
    })
    .join('')
}

/**
 * Returns undefined for messages that confirm no subscription. The address is made of the topic, which the tenant has configured, and of
 * the token, not of `SubscribeURL`, so that no message chooses which address this service calls.
 */
export function snsConfirmationUrl({
  Type: type,
  TopicArn: topicArn,
  Token: token,
}: JsonObject): string | undefined {
  if (type !== 'SubscriptionConfirmation' || typeof topicArn !== 'string') return undefined
  const origin = originOf(topicArn)
  if (origin === undefined || typeof token !== 'string' || !tokenForm.test(token)) return undefined
  const query = new URLSearchParams({ Action: 'ConfirmSubscription', TopicArn: topicArn, Token: token })
  return `${origin}/?${query}`
}
