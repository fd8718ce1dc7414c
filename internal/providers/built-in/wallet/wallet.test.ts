import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { createTestAuthority, signWallet, walletBody, webhookId } from '#test/support/intake/wallet-calls.ts'
import type { ProviderCall, ProviderSettings } from '../../provider.ts'
import { createWalletSigner, wallet, walletSources } from './provider.ts'

const nowMs = Date.UTC(2026, 10, 10)
const dayMs = 86_400_000
const certificateUrl = 'https://api.sandbox.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-a5cafa77'
const authority = createTestAuthority('Test Root', nowMs)
const { pem, privateKey } = authority.issue()
const settings: ProviderSettings = { wallet: { webhookId, environment: 'sandbox' } }
const fixture = (name: string) => readFileSync(`${import.meta.dir}/fixtures/${name}.json`, 'utf8')
const refused = (cause: string) => ({ kind: 'refused' as const, cause: cause as 'signature_missing' })

function callOf(body: string, headers: Record<string, string>, own = settings): ProviderCall {
  return {
    body: Buffer.from(body),
    headers: new Headers(headers),
    settings: own,
    nowMs,
    signatureAgeMsMax: 300_000,
  }
}

function trusted(chain = pem, roots = [authority.root]) {
  const verdict = wallet.trust(chain, roots)
  if (verdict.kind !== 'trusted') throw new Error(JSON.stringify(verdict))
  return verdict.keys
}

const signer = trusted()
const body = walletBody()
const headers = signWallet(body, { privateKey, certificateUrl, atMs: nowMs })
const verifySigned = (call: Partial<Parameters<typeof signWallet>[1]>) =>
  wallet.verify(callOf(body, signWallet(body, { privateKey, certificateUrl, atMs: nowMs, ...call })), signer)

/** Uses the example of the vendor's page on signatures and its expected result. */
test('wallet: the signed text is `id|time|webhook id|CRC-32`', () => {
  expect(wallet.verify(callOf(body, headers), signer)).toEqual({ kind: 'verified' })
  expect(Bun.hash.crc32('123456789')).toBe(0xcbf43926)
})

describe('transmission headers', () => {
  const names = ['Transmission-Id', 'Transmission-Time', 'Transmission-Sig', 'Auth-Algo', 'Cert-Url']

  test.each(names)('wallet: a call without %s is refused before its certificate is fetched', (name) => {
    const { [`PAYPAL-${name.toUpperCase()}`]: _, ...without } = headers
    expect(Object.keys(without)).toHaveLength(5)
    expect(wallet.verify(callOf(body, without), signer)).toEqual(refused('signature_missing'))
    expect(wallet.locate(callOf(body, without))).toEqual(refused('signature_missing'))
  })

  test.each(names)(
    'wallet: different values of the neutral and the vendor’s %s are refused before the certificate is fetched',
    (name) => {
      const both = { ...headers, [`Wallet-${name}`]: 'other' }
      expect(wallet.verify(callOf(body, both), signer)).toEqual(refused('headers_conflict'))
      expect(wallet.locate(callOf(body, both))).toEqual(refused('headers_conflict'))
    },
  )

  test.each([
    ['Auth-Algo', 'SHA1withRSA', 'scheme_unknown'],
    ['Auth-Algo', 'SHA256withECDSA', 'scheme_unknown'],
    ['Auth-Algo', 'none', 'scheme_unknown'],
    ['Transmission-Time', '1794268800', 'signature_malformed'],
    ['Transmission-Time', '2026-11-10', 'signature_malformed'],
    ['Transmission-Time', '2026-11-10T00:00:00', 'signature_malformed'],
    ['Transmission-Id', 'a|b', 'signature_malformed'],
    ['Transmission-Id', 'a b', 'signature_malformed'],
    ['Transmission-Id', 'x'.repeat(129), 'signature_malformed'],
    ['Transmission-Sig', 'not base64', 'signature_malformed'],
    ['Transmission-Sig', 'AAA', 'signature_malformed'],
    ['Transmission-Sig', 'A'.repeat(1372), 'signature_malformed'],
  ])('wallet: a call with %s: %s is refused before its certificate is fetched', (name, value, cause) => {
    const changed = { ...headers, [`PAYPAL-${name.toUpperCase()}`]: value }
    expect(wallet.verify(callOf(body, changed), signer)).toEqual(refused(cause))
    expect(wallet.locate(callOf(body, changed))).toEqual(refused(cause))
  })

  test('wallet: the name of the algorithm is case-insensitive', () => {
    const lower = { ...headers, 'PAYPAL-AUTH-ALGO': 'sha256WithRSA' }
    expect(wallet.verify(callOf(body, lower), signer)).toEqual({ kind: 'verified' })
  })
})

describe('signature', () => {
  test('wallet: a signature for another webhook id, or for a tenant without settings, is refused', () => {
    expect(verifySigned({ webhookId: '9ZZ9999999999999Z' })).toEqual(refused('signature_mismatch'))
    expect(wallet.verify(callOf(body, headers, {}), signer)).toEqual(refused('signature_mismatch'))
    expect(wallet.locate(callOf(body, headers, {}))).toEqual(refused('certificate_url_refused'))
  })

  test('wallet: a signature for another body, key, id or time is refused', () => {
    const mismatch = refused('signature_mismatch')
    expect(wallet.verify(callOf(`${body} `, headers), signer)).toEqual(mismatch)
    const { privateKey: other } = createTestAuthority('Test Root', nowMs).issue()
    expect(verifySigned({ privateKey: other })).toEqual(mismatch)
    const id = { ...headers, 'PAYPAL-TRANSMISSION-ID': crypto.randomUUID() }
    expect(wallet.verify(callOf(body, id), signer)).toEqual(mismatch)
    const time = { ...headers, 'PAYPAL-TRANSMISSION-TIME': '2026-11-10T00:00:01.000Z' }
    expect(wallet.verify(callOf(body, time), signer)).toEqual(mismatch)
  })

  test('wallet: a signed time is accepted up to 4 days in the past and up to `signatureAgeMsMax` in the future', () => {
    const at = (ms: number) => verifySigned({ atMs: nowMs + ms })
    for (const ms of [-3 * dayMs, -4 * dayMs, 300_000]) expect(at(ms)).toEqual({ kind: 'verified' })
    for (const ms of [-4 * dayMs - 1, 300_001]) expect(at(ms)).toEqual(refused('timestamp_outside_window'))
  })

  test('wallet: a signature outside its certificate’s validity is refused', () => {
    const verifyWith = (parts: Parameters<typeof authority.issue>[0]) => {
      const one = authority.issue(parts)
      const call = callOf(body, signWallet(body, { ...one, certificateUrl, atMs: nowMs }))
      return wallet.verify(call, trusted(one.pem))
    }
    expect(verifyWith({ validFromMs: nowMs, validToMs: nowMs })).toEqual({ kind: 'verified' })
    const outside = refused('certificate_outside_dates')
    expect(verifyWith({ validToMs: nowMs - 1000 })).toEqual(outside)
    expect(verifyWith({ validFromMs: nowMs + 1000 })).toEqual(outside)
  })
})

test('wallet: locates the certificate at the vendor’s addresses for the tenant’s environment, live or sandbox', () => {
  expect(wallet.locate(callOf(body, headers))).toEqual({
    kind: 'located',
    url: certificateUrl,
    environment: 'sandbox',
  })
  const [live, sandbox] = [walletSources.live.origins, walletSources.sandbox.origins]
  expect(live.filter((origin) => sandbox.includes(origin))).toEqual([])
  for (const origin of [...live, ...sandbox]) expect(new URL(origin).origin).toBe(origin)
})

test('wallet signer: a simulated call is verified by the signer’s own key and by no other key', async () => {
  const [own, other] = [await createWalletSigner(), await createWalletSigner()]
  const call = callOf(body, own.sign({ body: Buffer.from(body), webhookId, atMs: nowMs }))
  expect(wallet.verify(call, own.signer)).toEqual({ kind: 'verified' })
  for (const each of [signer, other.signer])
    expect(wallet.verify(call, each)).toEqual(refused('signature_mismatch'))
})

describe('events', () => {
  const read = (payload: string) => {
    const event = wallet.normalize(callOf(payload, {}))
    if (event.kind !== 'event') throw new Error(event.cause)
    return event
  }

  test.each([
    ['payment-captured', 'PAYMENT.CAPTURE.COMPLETED', 'payment.succeeded'],
    ['dispute-created', 'CUSTOMER.DISPUTE.CREATED', 'chargeback.created'],
    ['dispute-under-review', 'CUSTOMER.DISPUTE.UPDATED', 'chargeback.under_review'],
    ['dispute-lost', 'CUSTOMER.DISPUTE.RESOLVED', 'chargeback.lost'],
    ['subscription-activated', 'BILLING.SUBSCRIPTION.ACTIVATED', 'subscription.activated'],
  ])('wallet: fixture %s has the raw type %s and the normalized type %s', (name, rawType, type) => {
    const payload = fixture(name)
    const { id, create_time } = JSON.parse(payload) as { id: string; create_time: string }
    const occurredAtMs = Date.parse(create_time)
    expect(read(payload)).toEqual({ kind: 'event', sourceEventId: id, rawType, type, occurredAtMs, payload })
  })

  test('wallet: an unlisted type becomes the type `wallet.<type>`', () => {
    expect(read(walletBody('a', 'CHECKOUT.ORDER.SAVED')).type).toBe('wallet.checkout.order.saved')
  })
})
