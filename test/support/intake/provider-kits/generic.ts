import { createHmac } from 'node:crypto'
import { generic } from '#internal/providers/built-in/declarations.ts'
import type { UnsignedCall } from '#internal/providers/provider.ts'
import type { ConformanceKit } from './kit.ts'

const digest = 'a'.repeat(64)
const whsec = (seed: number) => `whsec_${Buffer.alloc(24, seed).toString('base64')}`
const text = 'ключ {"a":[1,2.50]}'

const service: ConformanceKit = {
  title: 'generic',
  provider: generic,
  secrets: [whsec(1), 'a shared secret', '3', 'clé', whsec(5)],
  settings: {},
  compose: ({ eventId, type }) => ({
    body: Buffer.from(
      JSON.stringify({ id: eventId, type, occurredAt: '2026-09-21T13:33:20Z', data: { text } }),
    ),
    headers: { 'content-type': 'application/json' },
  }),
  sign: ({ body, headers }, secret, nowMs) => {
    const time = String(Math.floor(nowMs / 1000))
    const v1 = createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex')
    return { ...headers, 'x-service-signature': `t=${time},v1=${v1}` }
  },
  signatureHeader: 'x-service-signature',
  idHeader: undefined,
  twins: [],
  timed: true,
  hex: true,
  otherSchemes: [`t=1790000000,v0=${digest}`, 't=1790000000'],
}

const standard: ConformanceKit = {
  ...service,
  title: 'generic, as Standard Webhooks',
  secrets: [whsec(1), whsec(2), whsec(3), Buffer.alloc(32, 4).toString('base64'), whsec(5)],
  compose: ({ eventId, type }): UnsignedCall => ({
    body: Buffer.from(JSON.stringify({ type, timestamp: '2026-09-21T13:33:20Z', data: { text } })),
    headers: {
      'content-type': 'application/json',
      ...(eventId === undefined ? {} : { 'webhook-id': eventId }),
    },
  }),
  sign: ({ body, headers }, secret, nowMs) => {
    const time = String(Math.floor(nowMs / 1000))
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
    const hmac = createHmac('sha256', key)
      .update(`${headers['webhook-id'] ?? ''}.${time}.`)
      .update(body)
    return { ...headers, 'webhook-timestamp': time, 'webhook-signature': `v1,${hmac.digest('base64')}` }
  },
  signatureHeader: 'webhook-signature',
  idHeader: 'webhook-id',
  timed: true,
  hex: false,
  otherSchemes: [`v1a,${'a'.repeat(86)}==`, `v2,${'a'.repeat(43)}=`],
}

/** Conformance kits for `generic`: calls in Latchkey's own format and in the format of Standard Webhooks. */
export const kits: readonly ConformanceKit[] = [service, standard]
