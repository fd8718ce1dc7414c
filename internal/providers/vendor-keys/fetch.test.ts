import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { testCa, testCertificate } from '#internal/egress/fixtures/servers.ts'
import { createOutbound, type Outbound, type OutboundOptions } from '#internal/egress/index.ts'
import { createKeyFetch } from './fetch.ts'

const cidrs = ['127.0.0.0/8']
const opened: Outbound[] = []
let server: Bun.Server<undefined>
let requests: { method: string; url: string; length: string | null }[] = []
let answer: () => Response

beforeAll(() => {
  server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    tls: testCertificate,
    fetch(request) {
      requests.push({
        method: request.method,
        url: request.url,
        length: request.headers.get('content-length'),
      })
      return answer()
    },
  })
})
afterAll(async () => {
  for (const outbound of opened) outbound.close()
  await server.stop(true)
})
beforeEach(() => {
  requests = []
  answer = () => new Response('-----BEGIN CERTIFICATE-----')
})

function openFetch(options: Partial<OutboundOptions> = {}, allowed: readonly string[] = cidrs) {
  const outbound = createOutbound({
    ports: 'any',
    cidrsMax: cidrs,
    ca: testCa,
    resolve: async () => ['127.0.0.1'],
    ...options,
  })
  opened.push(outbound)
  return createKeyFetch(outbound, { allowedCIDRs: allowed })
}
const urlOf = (path: string, scheme = 'https') => `${scheme}://hooks.example:${server.port}${path}`

test('key fetch: sends GET without a body and returns the whole text', async () => {
  const text = 'é'.repeat(32_768)
  answer = () => new Response(text)
  expect(await openFetch()(urlOf('/certs/a'))).toEqual({ kind: 'text', text })
  expect(requests).toEqual([{ method: 'GET', url: urlOf('/certs/a'), length: null }])
})

describe('key fetch failures', () => {
  test.each([301, 302, 303, 307, 308])(
    'key fetch: fails for redirect %d and does not follow it',
    async (status) => {
      answer = () => new Response(null, { status, headers: { Location: urlOf('/certs/b') } })
      expect(await openFetch()(urlOf('/certs/a'))).toEqual({ kind: 'failed', detail: `status ${status}` })
      expect(requests).toHaveLength(1)
    },
  )

  test.each([404, 410])('key fetch: status %d means that the certificate is absent', async (status) => {
    answer = () => new Response('a', { status })
    expect(await openFetch()(urlOf('/certs/a'))).toEqual({ kind: 'absent' })
  })

  test.each([204, 206, 400, 401, 403, 429, 500, 503])('key fetch: status %d fails', async (status) => {
    answer = () => new Response(status === 204 ? null : 'a', { status })
    expect(await openFetch()(urlOf('/certs/a'))).toEqual({ kind: 'failed', detail: `status ${status}` })
  })

  test('key fetch: a fetch of more than 64 KiB fails', async () => {
    answer = () => new Response('x'.repeat(65_537))
    expect(await openFetch()(urlOf('/certs/a'))).toEqual({ kind: 'failed', detail: 'over 65536 bytes' })
  })

  test.each([
    ['10.0.0.1'],
    ['127.0.0.1'],
    ['169.254.169.254'],
    ['::1'],
    ['::ffff:127.0.0.1'],
    ['64:ff9b::7f00:1'],
  ])('key fetch: refuses a host that resolves to %s', async (address) => {
    const fetch = openFetch({ cidrsMax: [], resolve: async () => ['93.184.216.34', address] }, [])
    expect(await fetch(urlOf('/certs/a'))).toEqual({ kind: 'failed', detail: 'address_refused' })
    expect(requests).toEqual([])
  })

  test('key fetch: a fetch from a server with an untrusted certificate fails', async () => {
    expect(await openFetch({ ca: undefined })(urlOf('/certs/a'))).toEqual({
      kind: 'failed',
      detail: 'tls_failed',
    })
  })

  test('key fetch: a fetch from a server with a certificate for a different name fails', async () => {
    const url = `https://else.example:${server.port}/certs/a`
    expect(await openFetch()(url)).toEqual({ kind: 'failed', detail: 'tls_failed' })
  })

  test('key fetch: a fetch from a host name without an address fails', async () => {
    const fetch = openFetch({ resolve: async () => [] })
    expect(await fetch(urlOf('/certs/a'))).toEqual({ kind: 'failed', detail: 'dns_failed' })
  })

  test('key fetch: a fetch from a closed port fails', async () => {
    const gone = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() })
    const url = `https://hooks.example:${gone.port}/certs/a`
    await gone.stop(true)
    expect(await openFetch()(url)).toEqual({ kind: 'failed', detail: 'connect_failed' })
  })
})
