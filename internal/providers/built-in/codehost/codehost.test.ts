import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { sign, verify } from '@octokit/webhooks-methods'
import { kits } from '#test/support/intake/provider-kits/codehost.ts'
import type { ProviderCall } from '../../provider.ts'
import { codehost } from '../declarations.ts'

const secret = "It's a Secret to Everybody"
const delivery = '72d3162e-cc78-11e3-81ab-4c9367dc0958'
const keys = codehost.prepare([secret])
const fixture = (name: string) => readFileSync(`${import.meta.dir}/fixtures/${name}.json`, 'utf8')

function callOf(payload: string | Uint8Array, headers: Record<string, string>): ProviderCall {
  return {
    body: Buffer.from(payload),
    headers: new Headers(headers),
    settings: {},
    nowMs: 1_794_300_000_000,
    signatureAgeMsMax: 300_000,
  }
}

const eventHeaders = (event: string) => ({ 'X-GitHub-Delivery': delivery, 'X-GitHub-Event': event })

describe('GitHub SDK', () => {
  test('codehost: a call signed by GitHub’s SDK is verified under both header names', async () => {
    const payload = fixture('push')
    const signature = await sign(secret, payload)
    for (const name of ['X-Hub-Signature-256', 'X-Codehost-Signature-256']) {
      expect(codehost.verify(callOf(payload, { [name]: signature }), keys)).toEqual({ kind: 'verified' })
    }
  })

  test('codehost: GitHub’s SDK verifies what the conformance kit signs', async () => {
    const payload = fixture('push')
    const headers = kits[0]?.sign({ body: Buffer.from(payload), headers: {} }, secret, 0)
    expect(await verify(secret, payload, headers?.['x-codehost-signature-256'] ?? '')).toBe(true)
  })

  // https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries, read 2026-11.
  test('codehost: GitHub’s published example is verified', () => {
    const signature = 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'
    const call = callOf('Hello, World!', { 'X-Hub-Signature-256': signature })
    expect(codehost.verify(call, keys)).toEqual({ kind: 'verified' })
    expect(codehost.normalize(callOf('Hello, World!', eventHeaders('push')))).toEqual({
      kind: 'refused',
      cause: 'body_not_json',
    })
  })
})

describe('SHA-1 signature', () => {
  const sha1 = `sha1=${'a'.repeat(40)}`

  test('codehost: a call with only a SHA-1 signature is refused under both header names', () => {
    for (const name of ['X-Hub-Signature', 'X-Codehost-Signature']) {
      const verification = codehost.verify(callOf('{}', { [name]: sha1 }), keys)
      expect(verification).toEqual({ kind: 'refused', cause: 'scheme_unknown' })
    }
  })

  test('codehost: a SHA-1 signature in addition to SHA-256 is ignored', async () => {
    const headers = { 'X-Hub-Signature': sha1, 'X-Hub-Signature-256': await sign(secret, '{}') }
    expect(codehost.verify(callOf('{}', headers), keys)).toEqual({ kind: 'verified' })
  })
})

describe('form body', () => {
  const payload = fixture('push')
  const type = 'application/x-www-form-urlencoded; charset=utf-8'
  const read = (form: string | Uint8Array, contentType = type) =>
    codehost.normalize(callOf(form, { ...eventHeaders('push'), 'Content-Type': contentType }))

  test('codehost: the payload of an event in a form body is the decoded form field `payload`', () => {
    for (const form of [
      new URLSearchParams({ payload }).toString(),
      `payload=${encodeURIComponent(payload)}`,
      `other=1&payload=${encodeURIComponent(payload)}&more=%zz`,
    ]) {
      expect(read(form)).toMatchObject({ kind: 'event', payload, type: 'code.pushed' })
      expect(read(form, 'Application/X-WWW-Form-Urlencoded')).toMatchObject({ kind: 'event' })
    }
  })

  test.each([
    ['no payload field', 'xpayload=%7B%7D'],
    ['two payload fields', 'payload=%7B%7D&payload=%7B%7D'],
    ['a broken escape', 'payload=%7B%'],
    ['an escape that is not UTF-8', 'payload=%7B%22a%22%3A%22%ff%22%7D'],
    ['bytes that are not UTF-8', Buffer.from([...Buffer.from('payload={"a":"'), 0xff, ...Buffer.from('"}')])],
    ['an empty field', 'payload='],
    ['a field that is not an object', 'payload=1'],
    ['many separators', '&'.repeat(1_000_000)],
  ])('codehost: a form with %s is refused', (_what, form) => {
    expect(read(form)).toEqual({ kind: 'refused', cause: 'body_not_json' })
  })

  test('codehost: a form payload deeper than 256 levels is refused', () => {
    const form = (levels: number) =>
      `payload=${encodeURIComponent(`{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`)}`
    expect(read(form(256))).toMatchObject({ kind: 'event' })
    expect(read(form(257))).toEqual({ kind: 'refused', cause: 'body_too_deep' })
  })

  test('codehost: the content type determines whether the body is read as a form or as JSON', () => {
    const form = `payload=${encodeURIComponent(payload)}`
    expect(read(form, 'application/json')).toEqual({ kind: 'refused', cause: 'body_not_json' })
    expect(read(payload)).toEqual({ kind: 'refused', cause: 'body_not_json' })
  })
})

describe('events', () => {
  test.each([
    ['pull-request-merged', 'pull_request', 'pull_request.merged'],
    ['push', 'push', 'code.pushed'],
    ['check-run-failed', 'check_run', 'check.failed'],
    ['review-approved', 'pull_request_review', 'review.approved'],
    ['ping', 'ping', 'webhook.pinged'],
    ['check-run-failed', 'something_new', 'codehost.something_new.completed'],
    ['push', 'something_new', 'codehost.something_new'],
  ])(
    'codehost: fixture %s with the event header %s has this event as raw type, and the type %s',
    (name, event, type) => {
      const payload = fixture(name)
      expect(codehost.normalize(callOf(payload, eventHeaders(event)))).toEqual({
        kind: 'event',
        sourceEventId: delivery,
        rawType: event,
        type,
        occurredAtMs: undefined,
        payload,
      })
    },
  )

  test('codehost: a call without the event header has the raw type `unknown`, whatever its `action`', () => {
    const event = codehost.normalize(callOf('{"action":"opened"}', { 'X-GitHub-Delivery': delivery }))
    expect(event).toMatchObject({ rawType: 'unknown', type: 'codehost.unknown' })
  })

  test('codehost: an `action` that is not text is ignored', () => {
    for (const [event, type] of [
      ['push', 'code.pushed'],
      ['pull_request', 'codehost.pull_request'],
    ] as const) {
      const normalized = codehost.normalize(callOf('{"action":1}', eventHeaders(event)))
      expect(normalized).toMatchObject({ rawType: event, type })
    }
  })
})
