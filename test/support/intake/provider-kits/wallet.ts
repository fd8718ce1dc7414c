import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { wallet } from '#internal/providers/built-in/wallet/provider.ts'
import type { TrustedSigner } from '#internal/providers/vendor-keys/chain.ts'
import type { ConformanceKit } from './kit.ts'

const names = ['CERT-1', 'CERT-2', 'CERT-3', 'CERT-4', 'CERT-5'] as const
const webhookId = '1JE4291016473214C'
const keyPair = () => generateKeyPairSync('rsa', { modulusLength: 2048 })
const pairs = new Map(names.map((name) => [name as string, keyPair()]))
/** Key for signing calls that must not be verified. */
const untrusted = keyPair()
/** Key that signs no call. It is trusted in place of an unknown key, so that every signature is a mismatch. */
const unrelated = keyPair()

const header = (name: string) => [`wallet-${name}`, `paypal-${name}`]

/** Conformance kits for `wallet`: they build calls in the vendor's format and sign them. */
export const kits: readonly ConformanceKit[] = [
  {
    title: 'wallet',
    provider: wallet,
    secrets: names,
    settings: { wallet: { webhookId, environment: 'live' } },
    // A call names exactly one certificate.
    alone: true,
    verify: (call, secrets) => wallet.verify(call, signerOf(secrets)),
    compose: ({ eventId, type }) => ({
      body: Buffer.from(
        JSON.stringify({
          id: eventId,
          event_version: '1.0',
          create_time: '2026-09-21T13:33:20.000Z',
          resource_type: 'capture',
          event_type: type,
          summary: 'Zahlung über 10,00 € für Käufer „Ö“',
          resource: { id: '2GG279541U471931P', status: 'COMPLETED' },
        }),
      ),
      headers: { 'content-type': 'application/json' },
    }),
    sign: ({ body, headers }, secret, nowMs) => {
      const id = '69cd13f0-d67a-11e5-baa3-778b53f4ae55'
      const time = new Date(nowMs).toISOString().replace('.000Z', 'Z')
      const text = [id, time, webhookId, crc32(body)].join('|')
      return {
        ...headers,
        'wallet-transmission-id': id,
        'wallet-transmission-time': time,
        'wallet-transmission-sig': sign('RSA-SHA256', Buffer.from(text), keyOf(secret)).toString('base64'),
        'wallet-auth-algo': 'SHA256withRSA',
        'wallet-cert-url': 'https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-df8cd2d5',
      }
    },
    signatureHeader: 'wallet-transmission-sig',
    idHeader: undefined,
    twins: [
      header('transmission-id'),
      header('transmission-time'),
      header('transmission-sig'),
      header('auth-algo'),
      header('cert-url'),
    ],
    timed: true,
    pastMsMax: 4 * 86_400_000,
    hex: false,
    // A different header names the scheme; wallet.test.ts tests other schemes.
    otherSchemes: [],
  },
]

function keyOf(name: string): KeyObject {
  return (pairs.get(name) ?? untrusted).privateKey
}

function signerOf([name = '']: readonly string[]): TrustedSigner {
  const { publicKey } = pairs.get(name) ?? unrelated
  return { key: publicKey, validFromMs: 0, validToMs: Number.MAX_SAFE_INTEGER }
}
