import { createHash, createHmac } from 'node:crypto'
import { gateway } from '#internal/providers/built-in/gateway/provider.ts'
import type { ConformanceKit } from './kit.ts'

const publicKey = 'integration_public_key'
const timestamp = '2026-09-21T13:33:20Z'
const references: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' }

/** The vendor wraps base64 into lines and adds a final line feed. */
function packed(xml: Uint8Array): string {
  return Buffer.from(xml)
    .toString('base64')
    .replace(/.{1,60}/g, '$&\n')
}

function signed(payload: string, privateKey: string): string {
  const key = createHash('sha1').update(privateKey).digest()
  return `${publicKey}|${createHmac('sha1', key).update(payload).digest('hex')}`
}

/** Conformance kits for `gateway`: they build calls in the vendor's format and sign them. */
export const kits: readonly ConformanceKit[] = [
  {
    title: 'gateway',
    provider: gateway,
    secrets: ['integration_private_key', '2b', '3', 'klíč', 'x'.repeat(100)],
    settings: { gateway: { publicKey } },
    compose: ({ type }) => ({
      body: Buffer.from(
        `<notification>
  <timestamp type="datetime">${timestamp}</timestamp>
  <kind>${type.replace(/[&<>]/g, (char) => references[char] ?? '')}</kind>
  <subject><check type="boolean">true</check><note>Café &#x1F381;</note></subject>
</notification>`,
      ),
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    }),
    sign: ({ headers }) => headers,
    seal: (xml, secret) => {
      const payload = packed(xml)
      const fields = { bt_signature: signed(payload, secret), bt_payload: payload }
      return Buffer.from(new URLSearchParams(fields).toString())
    },
    payloadOf: (xml) => {
      const kind = /<kind>(.*)<\/kind>/.exec(Buffer.from(xml).toString())?.[1]
      const subject = { check: 'true', note: 'Café 🎁' }
      return JSON.stringify({ notification: { timestamp, kind, subject } })
    },
    signatureHeader: undefined,
    ownIds: true,
    idHeader: undefined,
    twins: [],
    timed: false,
    hex: true,
    otherSchemes: [],
  },
]
