import { describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { createTestAuthority } from '#test/support/intake/wallet-calls.ts'
import type { CertificateParts } from '#test/support/intake/write-certificate.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import type { RefusalCause } from '../provider.ts'
import { type TrustedSigner, validateChain } from './chain.ts'
import type { FetchedText } from './fetch.ts'
import type { FoundKeys, KeyFetchOutcome } from './store.ts'
import { VendorKeys } from './vendor-keys.ts'

const startMs = Date.UTC(2026, 10, 10)
const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
const path = '/certs/'
const live = 'https://api.wallet.example'
const sources = {
  live: { origins: [live, 'https://api-m.wallet.example'], path },
  sandbox: { origins: ['https://api.sandbox.wallet.example'], path },
}
const urlOf = (name: string) => `${live}${path}${name}`
const tenantId = someTenantId()
const authority = createTestAuthority('Test Root', startMs)
const subject = /^messageverificationcerts/
const good = { kind: 'text', text: authority.issue().pem } as const
const failed = { kind: 'failed', detail: 'status 500' } as const
const unavailable = { kind: 'unavailable' } as const
const refused = (cause: RefusalCause): FoundKeys<TrustedSigner> => ({ kind: 'refused', cause })

/** Creates a store with a simulated vendor and a clock that the test moves. */
function openStore(answer: (url: string) => FetchedText | Promise<FetchedText>) {
  const lab = {
    nowMs: startMs,
    fetched: [] as string[],
    outcomes: [] as KeyFetchOutcome[],
    find: (url: string, by: TenantId = tenantId) =>
      store.findSigner({ tenantId: by, environment: 'live', url }),
    store: undefined as unknown as VendorKeys,
  }
  const store = new VendorKeys({
    sources,
    fetchText: async (url) => {
      lab.fetched.push(url)
      return answer(url)
    },
    trust: (chain) => validateChain(chain, { roots: [authority.root], subject }),
    clock: { now: () => lab.nowMs },
    onFetched: (_source, outcome) => lab.outcomes.push(outcome),
  })
  lab.store = store
  return lab
}

/** Lets fetches in flight complete that wait for no timer. */
const settle = () => new Promise((resolve) => setImmediate(resolve))

describe('certificate addresses', () => {
  test.each([
    urlOf('CERT-360caa42-fca2a594-df8cd2d5'),
    'https://api-m.wallet.example/certs/a_B-9',
    urlOf('x'.repeat(128)),
  ])('certificate store: fetches a certificate at the address %s', async (url) => {
    expect((await openStore(() => good).find(url)).kind).toBe('trusted')
  })

  test.each([
    ['of another host', 'https://evil.example/certs/a'],
    ['of a host that ends alike', 'https://evilapi.wallet.example/certs/a'],
    ['of a host that begins alike', 'https://api.wallet.example.evil.example/certs/a'],
    ['of the sandbox', 'https://api.sandbox.wallet.example/certs/a'],
    ['over http', 'http://api.wallet.example/certs/a'],
    ['of a file', 'file:///certs/a'],
    ['without a scheme', '//api.wallet.example/certs/a'],
    ['at another port', 'https://api.wallet.example:8443/certs/a'],
    ['with its port written out', 'https://api.wallet.example:443/certs/a'],
    ['with a user', 'https://a@api.wallet.example/certs/a'],
    ['with a host as user', 'https://api.wallet.example@evil.example/certs/a'],
    ['with a host as password', 'https://api.wallet.example:a@evil.example/certs/a'],
    ['with a backslash', 'https://api.wallet.example\\@evil.example/certs/a'],
    ['with a final dot', 'https://api.wallet.example./certs/a'],
    ['in capital letters', 'HTTPS://API.WALLET.EXAMPLE/certs/a'],
    ['with another path', 'https://api.wallet.example/other/a'],
    ['with a parent directory', 'https://api.wallet.example/certs/../oauth/a'],
    ['with an escaped parent directory', 'https://api.wallet.example/certs/%2e%2e%2fa'],
    ['with a deeper path', 'https://api.wallet.example/certs/a/b'],
    ['without a certificate name', 'https://api.wallet.example/certs/'],
    ['with a query', 'https://api.wallet.example/certs/a?b'],
    ['with a fragment', 'https://api.wallet.example/certs/a#b'],
    ['with a leading space', ' https://api.wallet.example/certs/a'],
    ['with a line feed', 'https://api.wallet.example/certs/a\n'],
    ['that is repeated', `${urlOf('a')}, ${urlOf('a')}`],
    ['that is too long', urlOf('x'.repeat(129))],
    ['that is empty', ''],
  ])('certificate store: an address %s is refused without a fetch', async (_what, url) => {
    const lab = openStore(() => good)
    expect(await lab.find(url)).toEqual(refused('certificate_url_refused'))
    expect(lab.fetched).toEqual([])
  })
})

describe('certificate caching', () => {
  test('certificate store: concurrent and later calls share one fetch', async () => {
    const { promise, resolve } = Promise.withResolvers<FetchedText>()
    const lab = openStore(() => promise)
    const waiting = Array.from({ length: 40 }, () => lab.find(urlOf('a'), someTenantId()))
    resolve(good)
    const found = await Promise.all(waiting)
    expect(found.every(({ kind }) => kind === 'trusted')).toBe(true)
    expect((await lab.find(urlOf('a'))).kind).toBe('trusted')
    expect(lab.fetched).toEqual([urlOf('a')])
    expect(lab.outcomes).toEqual(['trusted'])
  })

  test('certificate store: refreshes a used certificate in the background after 18 h', async () => {
    const lab = openStore(() => good)
    await lab.find(urlOf('a'))
    lab.nowMs += 18 * hourMs - 1
    await lab.find(urlOf('a'))
    expect(lab.fetched).toHaveLength(1)
    lab.nowMs += 1
    await Promise.all(Array.from({ length: 10 }, () => lab.find(urlOf('a'))))
    await settle()
    expect(lab.fetched).toHaveLength(2)
    lab.nowMs += 17 * hourMs
    await lab.find(urlOf('a'))
    expect(lab.fetched).toHaveLength(2)
  })

  test('certificate store: after 24 h a call waits for the refreshed certificate', async () => {
    const renewed = authority.issue({ validToMs: startMs + 100 * dayMs })
    const lab = openStore(() => (lab.fetched.length > 1 ? { kind: 'text', text: renewed.pem } : good))
    await lab.find(urlOf('a'))
    lab.nowMs += dayMs
    const found = await lab.find(urlOf('a'))
    expect(found).toMatchObject({ kind: 'trusted', keys: { validToMs: startMs + 100 * dayMs } })
  })

  test('certificate store: while refreshes fail it uses a certificate for a week and retries once a minute', async () => {
    const lab = openStore(() => (lab.fetched.length > 1 ? failed : good))
    await lab.find(urlOf('a'))
    lab.nowMs += 2 * dayMs
    for (let call = 0; call < 10; call += 1) expect((await lab.find(urlOf('a'))).kind).toBe('trusted')
    expect(lab.fetched).toHaveLength(2)
    lab.nowMs += minuteMs
    expect((await lab.find(urlOf('a'))).kind).toBe('trusted')
    expect(lab.fetched).toHaveLength(3)
    lab.nowMs = startMs + 7 * dayMs
    expect(await lab.find(urlOf('a'))).toEqual(unavailable)
    expect(lab.outcomes).toEqual(['trusted', 'failed', 'failed', 'failed'])
  })

  test('certificate store: an untrusted refresh does not replace a valid certificate', async () => {
    const stranger = createTestAuthority('Test Root', startMs).issue()
    const lab = openStore(() => (lab.fetched.length > 1 ? { kind: 'text', text: stranger.pem } : good))
    await lab.find(urlOf('a'))
    lab.nowMs += dayMs
    expect((await lab.find(urlOf('a'))).kind).toBe('trusted')
    expect(lab.outcomes).toEqual(['trusted', 'refused'])
  })

  test('certificate store: fetches an expired certificate again', async () => {
    const short = authority.issue({ validToMs: startMs + hourMs })
    const lab = openStore(() => (lab.fetched.length > 1 ? good : { kind: 'text', text: short.pem }))
    expect((await lab.find(urlOf('a'))).kind).toBe('trusted')
    lab.nowMs += hourMs + 1000
    expect(await lab.find(urlOf('a'))).toMatchObject({ keys: { validToMs: startMs + 365 * dayMs } })
    expect(lab.fetched).toHaveLength(2)
  })

  test.each<[string, Partial<CertificateParts>, RefusalCause]>([
    ['has expired', { validToMs: startMs - 1000 }, 'certificate_outside_dates'],
    ['is not valid yet', { validFromMs: startMs + hourMs }, 'certificate_outside_dates'],
    ['has another subject', { subject: 'www.paypal.com' }, 'certificate_subject_mismatch'],
    ['is signed with SHA-1', { hash: 'sha1' }, 'certificate_weak'],
    ['is below no trusted root', { issuer: 'Nobody' }, 'certificate_untrusted'],
  ])(
    'certificate store: a certificate that %s is refused, and the result is cached for a minute',
    async (_what, parts, cause) => {
      const lab = openStore(() => ({ kind: 'text', text: authority.issue(parts).pem }))
      for (let call = 0; call < 5; call += 1) expect(await lab.find(urlOf('a'))).toEqual(refused(cause))
      expect(lab.fetched).toHaveLength(1)
      lab.nowMs += minuteMs
      await lab.find(urlOf('a'))
      expect(lab.fetched).toHaveLength(2)
      expect(lab.outcomes).toEqual(['refused', 'refused'])
    },
  )

  test.each<[string, FetchedText]>([
    ['cannot be fetched', failed],
    ['is a proxy’s HTML page', { kind: 'text', text: '<html>Sign in</html>' }],
  ])(
    'certificate store: a certificate that %s is unavailable, and the result is cached for 10 s',
    async (_what, answer) => {
      const lab = openStore(() => (lab.fetched.length > 1 ? good : answer))
      for (let call = 0; call < 5; call += 1) expect(await lab.find(urlOf('a'))).toEqual(unavailable)
      expect(lab.fetched).toHaveLength(1)
      lab.nowMs += 10_000
      expect((await lab.find(urlOf('a'))).kind).toBe('trusted')
      expect(lab.outcomes).toEqual(['failed', 'trusted'])
    },
  )

  test('certificate store: does not fetch a missing certificate again for a minute', async () => {
    const lab = openStore((url) => (url.endsWith('/made-up') ? { kind: 'absent' } : good))
    const notFound = refused('certificate_not_found')
    for (let call = 0; call < 5; call += 1) expect(await lab.find(urlOf('made-up'))).toEqual(notFound)
    expect(lab.fetched).toHaveLength(1)
    lab.nowMs += minuteMs
    expect(await lab.find(urlOf('made-up'))).toEqual(notFound)
    expect(lab.outcomes).toEqual(['absent', 'absent'])
  })

  test('certificate store: continues to use a known certificate while the vendor responds 404', async () => {
    const lab = openStore(() => (lab.fetched.length > 1 ? { kind: 'absent' } : good))
    await lab.find(urlOf('a'))
    lab.nowMs += dayMs
    expect((await lab.find(urlOf('a'))).kind).toBe('trusted')
    expect(lab.outcomes).toEqual(['trusted', 'absent'])
  })

  test('certificate store: `secondsToExpiry` ignores certificates that were not used within the last day', async () => {
    const soon = authority.issue({ validToMs: startMs + 10 * dayMs })
    const lab = openStore((url) => (url.endsWith('/soon') ? { kind: 'text', text: soon.pem } : good))
    expect(lab.store.secondsToExpiry).toBeUndefined()
    await lab.find(urlOf('late'))
    expect(lab.store.secondsToExpiry).toBe((365 * dayMs) / 1000)
    await lab.find(urlOf('soon'))
    lab.nowMs += dayMs
    expect(lab.store.secondsToExpiry).toBe((9 * dayMs) / 1000)
    await lab.find(urlOf('late'))
    lab.nowMs += 1
    expect(lab.store.secondsToExpiry).toBeGreaterThan((300 * dayMs) / 1000)
  })

  test('certificate store: keeps at most 256 certificates', async () => {
    const lab = openStore(() => good)
    for (let number = 0; number < 257; number += 1) await lab.find(urlOf(`c${number}`))
    await lab.find(urlOf('c256'))
    expect(lab.fetched).toHaveLength(257)
    await lab.find(urlOf('c0'))
    expect(lab.fetched).toHaveLength(258)
  })
})

describe('made-up addresses', () => {
  test('certificate store: one tenant has at most two fetches in flight, and other tenants can still fetch', async () => {
    const { promise, resolve } = Promise.withResolvers<FetchedText>()
    const lab = openStore((url) => (url.includes('/made-up') ? promise : good))
    const stuck = [lab.find(urlOf('made-up-1')), lab.find(urlOf('made-up-2'))]
    expect(await lab.find(urlOf('made-up-3'))).toEqual(unavailable)
    expect((await lab.find(urlOf('real'), someTenantId())).kind).toBe('trusted')
    expect((await lab.find(urlOf('real'))).kind).toBe('trusted')
    resolve(failed)
    expect(await Promise.all(stuck)).toEqual([unavailable, unavailable])
    expect(lab.outcomes).toEqual(['held_back', 'trusted', 'failed', 'failed'])
  })

  test('certificate store: invented addresses do not block refreshes', async () => {
    const { promise } = Promise.withResolvers<FetchedText>()
    const lab = openStore((url) => (url.includes('/made-up') ? promise : good))
    await lab.find(urlOf('real'))
    void lab.find(urlOf('made-up-1'))
    void lab.find(urlOf('made-up-2'))
    lab.nowMs += 7 * dayMs - 1
    expect((await lab.find(urlOf('real'))).kind).toBe('trusted')
    lab.nowMs += dayMs
    expect((await lab.find(urlOf('real'))).kind).toBe('trusted')
    expect(lab.outcomes).toEqual(['trusted', 'trusted', 'trusted'])
  })

  test('certificate store: a tenant with 30 failures per minute gets no further fetch, while other tenants and cached certificates are served', async () => {
    const lab = openStore((url) => (url.includes('/made-up') ? failed : good))
    await lab.find(urlOf('real'))
    for (let number = 0; number < 100; number += 1)
      expect(await lab.find(urlOf(`made-up-${number}`))).toEqual(unavailable)
    expect(lab.fetched).toHaveLength(31)
    expect((await lab.find(urlOf('real'))).kind).toBe('trusted')
    expect((await lab.find(urlOf('other'), someTenantId())).kind).toBe('trusted')
    lab.nowMs += minuteMs
    expect((await lab.find(urlOf('another'))).kind).toBe('trusted')
  })

  test('certificate store: at most 16 fetches are in flight', async () => {
    const { promise, resolve } = Promise.withResolvers<FetchedText>()
    const lab = openStore(() => promise)
    const asked = Array.from({ length: 40 }, (_, number) => lab.find(urlOf(`c${number}`), someTenantId()))
    expect(lab.fetched).toHaveLength(16)
    resolve(good)
    const found = await Promise.all(asked)
    expect(found.filter(({ kind }) => kind === 'trusted')).toHaveLength(16)
    expect((await lab.find(urlOf('c39'))).kind).toBe('trusted')
  })
})
