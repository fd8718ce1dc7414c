import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { createTestAuthority, signWallet, walletBody, webhookId } from '#test/support/wallet-calls.ts'
import type { ProviderCall, ProviderSettings } from '../../provider.ts'
import { createWalletSigner, wallet, walletSources } from './provider.ts'
import { walletTypes } from './types.ts'

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
  const verdict = wallet.trust({ chain, roots })
  if (verdict.kind !== 'trusted') throw new Error(JSON.stringify(verdict))
  return verdict.signer
}

const signer = trusted()
const body = walletBody()
const headers = signWallet(body, { privateKey, certificateUrl, atMs: nowMs })
const verifySigned = (call: Partial<Parameters<typeof signWallet>[1]>) =>
  wallet.verify(callOf(body, signWallet(body, { privateKey, certificateUrl, atMs: nowMs, ...call })), signer)

/** A call as the vendor's page on signatures shows it, with what it says to make of that. */
test('what is signed is id, time, webhook id and checksum, with bars between', () => {
  expect(wallet.verify(callOf(body, headers), signer)).toEqual({ kind: 'verified' })
  expect(Bun.hash.crc32('123456789')).toBe(0xcbf43926)
})

describe('of the five headers', () => {
  const names = ['Transmission-Id', 'Transmission-Time', 'Transmission-Sig', 'Auth-Algo', 'Cert-Url']

  test.each(names)('%s is missed, before anything is fetched too', (name) => {
    const { [`PAYPAL-${name.toUpperCase()}`]: _, ...without } = headers
    expect(Object.keys(without)).toHaveLength(5)
    expect(wallet.verify(callOf(body, without), signer)).toEqual(refused('signature_missing'))
    expect(wallet.locate(callOf(body, without))).toEqual(refused('signature_missing'))
  })

  test.each(names)('%s under both names must say the same, before anything is fetched too', (name) => {
    const both = { ...headers, [`Wallet-${name}`]: 'other' }
    expect(wallet.verify(callOf(body, both), signer)).toEqual(refused('headers_conflict'))
    expect(wallet.locate(callOf(body, both))).toEqual(refused('headers_conflict'))
  })

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
  ])('%s of %s is refused, before anything is fetched too', (name, value, cause) => {
    const changed = { ...headers, [`PAYPAL-${name.toUpperCase()}`]: value }
    expect(wallet.verify(callOf(body, changed), signer)).toEqual(refused(cause))
    expect(wallet.locate(callOf(body, changed))).toEqual(refused(cause))
  })

  test('the algorithm’s name counts in any case', () => {
    const lower = { ...headers, 'PAYPAL-AUTH-ALGO': 'sha256WithRSA' }
    expect(wallet.verify(callOf(body, lower), signer)).toEqual({ kind: 'verified' })
  })
})

describe('a signature', () => {
  test('for another webhook is refused, and so is any without the tenant’s settings', () => {
    expect(verifySigned({ webhookId: '9ZZ9999999999999Z' })).toEqual(refused('signature_mismatch'))
    expect(wallet.verify(callOf(body, headers, {}), signer)).toEqual(refused('signature_mismatch'))
    expect(wallet.locate(callOf(body, headers, {}))).toEqual(refused('certificate_url_refused'))
  })

  test('of another body, key, id or time is refused', () => {
    const mismatch = refused('signature_mismatch')
    expect(wallet.verify(callOf(`${body} `, headers), signer)).toEqual(mismatch)
    const { privateKey: other } = createTestAuthority('Test Root', nowMs).issue()
    expect(verifySigned({ privateKey: other })).toEqual(mismatch)
    const id = { ...headers, 'PAYPAL-TRANSMISSION-ID': crypto.randomUUID() }
    expect(wallet.verify(callOf(body, id), signer)).toEqual(mismatch)
    const time = { ...headers, 'PAYPAL-TRANSMISSION-TIME': '2026-11-10T00:00:01.000Z' }
    expect(wallet.verify(callOf(body, time), signer)).toEqual(mismatch)
  })

  test('passes for as long as the vendor tries again, and a day; ahead of us only as far as clocks differ', () => {
    const at = (ms: number) => verifySigned({ atMs: nowMs + ms })
    for (const ms of [-3 * dayMs, -4 * dayMs, 300_000]) expect(at(ms)).toEqual({ kind: 'verified' })
    for (const ms of [-4 * dayMs - 1, 300_001]) expect(at(ms)).toEqual(refused('timestamp_outside_window'))
  })

  test('counts within the days of its certificate only', () => {
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

test('a certificate is looked for where the call says, in the tenant’s environment', () => {
  expect(wallet.locate(callOf(body, headers))).toEqual({
    kind: 'located',
    url: certificateUrl,
    environment: 'sandbox',
  })
  const [live, sandbox] = [walletSources.live.origins, walletSources.sandbox.origins]
  expect(live.filter((origin) => sandbox.includes(origin))).toEqual([])
  for (const origin of [...live, ...sandbox]) expect(new URL(origin).origin).toBe(origin)
})

const simulated = await createWalletSigner(nowMs)

describe('a signer in memory', () => {
  const signed = simulated.sign({ body: Buffer.from(body), webhookId, atMs: nowMs })

  test('is verified by the adapter that was handed its root', () => {
    const { chain, roots } = simulated.certificate
    expect(wallet.verify(callOf(body, signed), trusted(chain, [...roots]))).toEqual({ kind: 'verified' })
  })

  test('is verified by nobody else', async () => {
    expect(wallet.verify(callOf(body, signed), signer)).toEqual(refused('signature_mismatch'))
    const { chain } = simulated.certificate
    const { roots } = (await createWalletSigner(nowMs)).certificate
    for (const others of [[authority.root], roots]) {
      expect(wallet.trust({ chain, roots: others })).toEqual(refused('certificate_untrusted'))
    }
  })
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
  ])('%s is read', (name, rawType, type) => {
    const payload = fixture(name)
    const { id, create_time } = JSON.parse(payload) as { id: string; create_time: string }
    const occurredAtMs = Date.parse(create_time)
    expect(read(payload)).toEqual({ kind: 'event', eventId: id, rawType, type, occurredAtMs, payload })
  })

  const dispute = (type: string, resource: unknown) =>
    read(JSON.stringify({ id: 'WH-1', event_type: `CUSTOMER.DISPUTE.${type}`, resource })).type

  test.each([
    ['OPEN', 'chargeback.updated'],
    ['WAITING_FOR_SELLER_RESPONSE', 'chargeback.evidence_required'],
    ['WAITING_FOR_BUYER_RESPONSE', 'chargeback.updated'],
    ['UNDER_REVIEW', 'chargeback.under_review'],
    ['RESOLVED', 'chargeback.closed'],
    ['OTHER', 'chargeback.updated'],
    ['constructor', 'chargeback.updated'],
  ])('an updated dispute with status %s is %s', (status, type) => {
    expect(dispute('UPDATED', { status })).toBe(type)
  })

  test.each([
    ['RESOLVED_BUYER_FAVOUR', 'chargeback.lost'],
    ['ACCEPTED', 'chargeback.lost'],
    ['RESOLVED_SELLER_FAVOUR', 'chargeback.won'],
    ['DENIED', 'chargeback.won'],
    ['RESOLVED_WITH_PAYOUT', 'chargeback.closed'],
    ['CANCELED_BY_BUYER', 'chargeback.closed'],
    ['NONE', 'chargeback.closed'],
    ['SOMETHING_NEW', 'chargeback.closed'],
    ['toString', 'chargeback.closed'],
  ])('a dispute that ends as %s is %s, by whichever type it is told', (outcome_code, type) => {
    const resource = { status: 'RESOLVED', dispute_outcome: { outcome_code } }
    expect(dispute('RESOLVED', resource)).toBe(type)
    expect(dispute('UPDATED', resource)).toBe(type)
  })

  test('a dispute without what decides still has a type', () => {
    for (const resource of [undefined, null, [], 'a', { status: 1 }, { dispute_outcome: [] }]) {
      expect(dispute('UPDATED', resource)).toBe('chargeback.updated')
      expect(dispute('RESOLVED', resource)).toBe('chargeback.closed')
    }
  })

  test('what no table lists keeps its name', () => {
    expect(read(walletBody('a', 'INVOICING.INVOICE.PAID')).type).toBe('wallet.invoicing.invoice.paid')
  })

  test('the table lists at least 25 types, each in its vendor’s form', () => {
    expect(walletTypes.size).toBeGreaterThanOrEqual(25)
    expect([...walletTypes.keys()].filter((type) => !/^[A-Z]+(\.[A-Z-]+){2,3}$/.test(type))).toEqual([])
  })
})
