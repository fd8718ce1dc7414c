import { describe, expect, test } from 'bun:test'
import {
  conditionOf as condition,
  found,
  planOf as plan,
  storedCallback,
} from '#test/support/tenants/tenant-plans.ts'
import type { SecretRead } from '../tenant-source.ts'
import type { StoredSecret } from './gather-tenant.ts'

const [s1, s2] = ['first-provider-secret', 'second-provider-secret']
const cardSpec = { providers: [{ name: 'card', secretRef: { name: 'acme-card' } }] }

describe('secrets', () => {
  const card = (ordinal: number, value: string | undefined, keyId = 'k1'): StoredSecret => {
    return { field: 'provider:card', ordinal, keyId, value, createdAtMs: 9 }
  }
  const cardOf = (values: Record<string, string>, ...stored: StoredSecret[]) =>
    plan({
      spec: cardSpec,
      secrets: { 'acme-card': found(values) },
      stored: { secrets: [storedCallback, ...stored] },
    }).secrets

  test('planSecrets: all values of a Secret are valid, in the order of the Secret’s entries', () => {
    expect(cardOf({ b: s2, a: s1 }).put.map(({ ordinal, value }) => [ordinal, value])).toEqual([
      [0, s1],
      [1, s2],
    ])
  })

  test('planSecrets: equal values count once', () => {
    expect(cardOf({ b: s1, a: s1 }).put).toHaveLength(1)
  })

  test('planSecrets: removed values are deleted, and values that move keep their age', () => {
    const { put, remove } = cardOf({ b: s2 }, card(0, s1), card(1, s2))
    expect(put).toMatchObject([{ ordinal: 0, value: s2, createdAtMs: 9 }])
    expect(remove).toEqual([{ field: 'provider:card', ordinal: 1 }])
  })

  test('planSecrets: the secrets of a removed provider are deleted', () => {
    const { remove } = plan({ stored: { secrets: [storedCallback, card(0, s1)] } }).secrets
    expect(remove).toEqual([{ field: 'provider:card', ordinal: 0 }])
  })

  test('planSecrets: without a callback no signing secret is generated, and a stored one is deleted', () => {
    const spec = { callback: undefined }
    expect(plan({ spec, stored: { secrets: [] } }).generate).toEqual([])
    const { generate, secrets } = plan({ spec, stored: { secrets: [storedCallback] } })
    expect([generate, secrets.put]).toEqual([[], []])
    expect(secrets.remove).toEqual([{ field: 'callback', ordinal: 0 }])
  })

  test('planSecrets: a callback that is removed and added again signs with the value in its generated Secret', () => {
    const { generate, secrets } = plan({ stored: { secrets: [] } })
    expect(generate).toEqual([])
    expect(secrets.put).toMatchObject([{ field: 'callback', value: storedCallback.value }])
  })

  test.each<[string, Record<string, SecretRead>]>([
    ['missing', {}],
    ['forbidden', { 'acme-card': { kind: 'unreadable', reason: 'Forbidden', message: '' } }],
    ['invalid', { 'acme-card': found({ a: '' }) }],
  ])('planSecrets: stored values stay while their Secret is %s', (_case, secrets) => {
    const planned = plan({ spec: cardSpec, secrets, stored: { secrets: [storedCallback, card(0, s1)] } })
    expect(planned.secrets).toEqual({ put: [], remove: [] })
  })

  test('planSecrets: a message names the ids of keys that are missing to decrypt stored values, even if new values replace these', () => {
    const stored = { secrets: [storedCallback, card(0, undefined, 'lost')] }
    const kept = condition(plan({ spec: cardSpec, stored }), 'SecretsSynced')
    expect(kept).toMatchObject({ status: 'False', reason: 'SecretMissing' })
    expect(kept.message).toContain('sealed with lost')
    const sealedAnew = plan({ spec: cardSpec, stored, secrets: { 'acme-card': found({ a: s1 }) } })
    expect(sealedAnew.warnings.join()).toContain('sealed with lost')
    expect(condition(sealedAnew, 'SecretsSynced').status).toBe('True')
  })

  test('planSecrets: values encrypted with an older or unknown key are encrypted again', () => {
    expect(cardOf({ a: s1 }, card(0, s1, 'k0')).put).toMatchObject([{ value: s1, createdAtMs: 9 }])
    expect(cardOf({ a: s1 }, card(0, undefined)).put).toMatchObject([{ value: s1 }])
  })

  test.each<[string, Record<string, string>, string[], string, string]>([
    ['blank', { a: ' '.repeat(20) }, [], 'SecretTooShort', 'key a: is blank'],
    ['blank but for a newline', { a: '\n', b: s1 }, [s1], 'SecretTooShort', 'key a: is blank'],
    [
      'of 7 characters',
      { a: '1234567', b: s1 },
      [s1],
      'SecretTooShort',
      'key a: has fewer than 8 characters',
    ],
    [
      'of 7 characters and a newline',
      { a: '1234567\n', b: s1 },
      [s1],
      'SecretTooShort',
      'key a: has fewer than 8',
    ],
    [
      'of 7 characters among spaces',
      { a: ' 1234567 ', b: s1 },
      [s1],
      'SecretTooShort',
      'key a: has fewer than 8',
    ],
    [
      'of 7 characters behind whsec_',
      { a: 'whsec_1234567', b: s1 },
      [s1],
      'SecretTooShort',
      'key a: has fewer than 8',
    ],
    ['of 8 characters', { a: '12345678' }, ['12345678'], 'WeakSecret', 'key a has fewer than 16 characters'],
    [
      'of 15 characters',
      { a: 'ünïcödé-1234567' },
      ['ünïcödé-1234567'],
      'WeakSecret',
      'key a has fewer than 16',
    ],
    ['of 16 characters', { a: '1234567890123456' }, ['1234567890123456'], 'Synced', 'All Secrets were read'],
  ])(
    'planSecrets: a provider secret (%s) has the expected effect on the values in force and the condition',
    (_case, values, inForce, reason, says) => {
      const planned = plan({ spec: cardSpec, secrets: { 'acme-card': found(values) }, stored: {} })
      expect(planned.secrets.put.map(({ value }) => value)).toEqual(inForce)
      const synced = condition(planned, 'SecretsSynced')
      expect([synced.reason, synced.status]).toEqual([reason, reason === 'SecretTooShort' ? 'False' : 'True'])
      expect(synced.message).toContain(says)
      expect(JSON.stringify(planned.conditions) + planned.warnings.join()).not.toMatch(/1234567|ünïcödé/)
    },
  )

  test('planSecrets: stored values that are too short are deleted, and longer ones stay', () => {
    const stored = { secrets: [storedCallback, card(0, '1234567'), card(1, s1)] }
    expect(plan({ spec: cardSpec, stored }).secrets.remove).toEqual([{ field: 'provider:card', ordinal: 0 }])
  })

  test('planSecrets: one trailing newline is ignored with a warning', () => {
    const planned = plan({ spec: cardSpec, secrets: { 'acme-card': found({ a: `${s1}\n\n` }) } })
    expect(planned.secrets.put.find(({ field }) => field === 'provider:card')?.value).toBe(`${s1}\n`)
    expect(planned.warnings).toHaveLength(1)
    expect(planned.warnings.join()).toContain('acme-card')
  })

  test('planSecrets: a signing secret is generated once, in the format of Standard Webhooks', () => {
    const planned = plan({ secrets: { 'acme-callback': { kind: 'missing' } } })
    const value = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
    expect(planned.generate).toMatchObject([
      { namespace: 'shops', name: 'acme-callback', values: { signingSecret: value } },
    ])
    expect(planned.secrets.put).toMatchObject([{ field: 'callback', value }])
  })
})
