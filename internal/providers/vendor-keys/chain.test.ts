import { describe, expect, test } from 'bun:test'
import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import tls from 'node:tls'
import { createTestAuthority } from '#test/support/intake/wallet-calls.ts'
import { writeCertificate } from '#test/support/intake/write-certificate.ts'
import { readExtensions, validateChain } from './chain.ts'

const nowMs = Date.UTC(2026, 10, 10)
const dayMs = 86_400_000
const subject = /^messageverificationcerts(\.[a-z0-9-]+)*\.paypal\.com$/i
const authority = createTestAuthority('Test Root', nowMs)
const stranger = createTestAuthority('Test Root', nowMs)
const middle = authority.issue({ subject: 'Test Middle', authority: true })
const below = { issuer: 'Test Middle', issuerKey: middle.privateKey }
const signer = authority.issue()
const deep = authority.issue(below)

const validate = (...pems: string[]) => validateChain(pems.join(''), { roots: [authority.root], subject })
const refused = (cause: string) => ({ kind: 'refused' as const, cause: cause as 'certificate_untrusted' })

test('validateChain: trusts a signer below a root within the validity of both certificates', () => {
  const short = authority.issue({ validFromMs: nowMs - 2 * dayMs, validToMs: nowMs + dayMs })
  const verdict = validate(short.pem)
  if (verdict.kind !== 'trusted') throw new Error(JSON.stringify(verdict))
  expect(verdict.keys.key.equals(new X509Certificate(short.pem).publicKey)).toBe(true)
  expect(verdict.keys).toMatchObject({ validFromMs: nowMs - dayMs, validToMs: nowMs + dayMs })
})

describe('chains', () => {
  test.each([
    ['through an intermediate authority', [deep.pem, middle.pem]],
    ['that contains its root', [deep.pem, middle.pem, authority.pem]],
    ['in another order after the signer', [deep.pem, authority.pem, middle.pem]],
    ['with an unrelated certificate', [signer.pem, stranger.pem]],
    ['with text around its certificates', ['# the signer\n', signer.pem, '\n# the end']],
  ])('validateChain: a chain %s is trusted', (_what, pems) => {
    expect(validate(...pems).kind).toBe('trusted')
  })

  test('validateChain: trusts a listed root even if it is not self-signed', () => {
    const roots = [new X509Certificate(middle.pem)]
    expect(validateChain(deep.pem, { roots, subject }).kind).toBe('trusted')
  })

  const posing = stranger.issue({ subject: 'Test Middle', authority: true })
  const noAuthority = authority.issue({ subject: 'Test Middle' })
  const belowNoAuthority = authority.issue({ ...below, issuerKey: noAuthority.privateKey })
  const constraints = Buffer.from('300e0603551d1e0101ff04043002a000', 'hex')
  const constrained = authority.issue({ subject: 'Test Middle', authority: true, extensions: [constraints] })
  const belowConstrained = authority.issue({ ...below, issuerKey: constrained.privateKey })
  // Authorities with this option share one key.
  const named = { authority: true, issuerKey: signer.privateKey }
  const links = [
    authority.issue({ subject: 'A', authority: true }),
    authority.issue({ ...named, subject: 'B', issuer: 'A' }),
    authority.issue({ ...named, subject: 'C', issuer: 'B' }),
    authority.issue({ ...named, subject: 'D', issuer: 'C' }),
  ]
  const under = (issuer: string) => authority.issue({ issuer, issuerKey: signer.privateKey }).pem
  const chainOf = (issuer: string) => [under(issuer), ...links.map(({ pem }) => pem)]

  test('validateChain: trusts a chain of five certificates', () => {
    expect(validate(...chainOf('C')).kind).toBe('trusted')
  })

  test.each([
    ['from another root with the same name', [stranger.issue().pem]],
    ['that contains an untrusted root', [stranger.issue().pem, stranger.pem]],
    ['without its intermediate certificate', [deep.pem]],
    ['with another authority’s intermediate certificate of the same name', [deep.pem, posing.pem]],
    ['whose intermediate certificate cannot sign certificates', [belowNoAuthority.pem, noAuthority.pem]],
    ['whose intermediate certificate can sign some names only', [belowConstrained.pem, constrained.pem]],
    ['of six certificates', chainOf('D')],
  ])('validateChain: a chain %s is not trusted', (_what, pems) => {
    expect(validate(...pems)).toEqual(refused('certificate_untrusted'))
  })

  const chainVia = (middles: Parameters<typeof authority.issue>[0][]) => {
    const names = middles.map((_, nth) => `Via ${nth}`)
    const issued = middles.map((parts, nth) =>
      authority.issue({
        subject: names[nth] ?? '',
        authority: true,
        ...(nth > 0 && { issuer: names[nth - 1] ?? '', issuerKey: signer.privateKey }),
        ...parts,
      }),
    )
    return [under(names.at(-1) ?? ''), ...issued.map(({ pem }) => pem)]
  }
  const purposes = (...ids: readonly string[]) => {
    const list = ids.map((id) => `06${(id.length / 2).toString(16).padStart(2, '0')}${id}`).join('')
    const wrap = (tag: string, hex: string) => `${tag}${(hex.length / 2).toString(16).padStart(2, '0')}${hex}`
    return Buffer.from(wrap('30', `0603551d25${wrap('04', wrap('30', list))}`), 'hex')
  }
  const [server, client, code, any] = ['2b06010505070301', '2b06010505070302', '2b06010505070303', '551d2500']
  const withPurposes = (...ids: readonly string[]) => authority.issue({ extensions: [purposes(...ids)] }).pem
  const limitedRoot = (pathLengthMax: number) => {
    const root = authority.issue({
      subject: 'Limited Root',
      issuer: 'Limited Root',
      issuerKey: signer.privateKey,
      authority: true,
      pathLengthMax,
    })
    const top = authority.issue({
      subject: 'Top',
      issuer: 'Limited Root',
      issuerKey: signer.privateKey,
      authority: true,
    })
    return validateChain([under('Top'), top.pem].join(''), {
      roots: [new X509Certificate(root.pem)],
      subject,
    })
  }

  test.each<[string, string[]]>([
    ['below an authority with path length 0', chainVia([{ pathLengthMax: 0 }])],
    ['with one authority below path length 1', chainVia([{ pathLengthMax: 1 }, {}])],
    ['whose lower authority has path length 0', chainVia([{ pathLengthMax: 1 }, { pathLengthMax: 0 }])],
    ['whose signer is for TLS servers', [withPurposes(server)]],
    ['whose signer is for TLS clients', [withPurposes(client, code)]],
    ['whose signer is for any purpose', [withPurposes(any)]],
    ['whose authority is for TLS', chainVia([{ extensions: [purposes(server, client)] }])],
  ])('validateChain: a chain %s is trusted', (_what, pems) => {
    expect(validate(...pems).kind).toBe('trusted')
  })

  test.each<[string, string[]]>([
    ['with an authority below path length 0', chainVia([{ pathLengthMax: 0 }, {}])],
    ['with two authorities below path length 1', chainVia([{ pathLengthMax: 1 }, {}, {}])],
    [
      'with an authority below a second authority with path length 0',
      chainVia([{}, { pathLengthMax: 0 }, {}]),
    ],
    ['whose authority has no keyCertSign', chainVia([{ signsCertificates: false }])],
    ['whose signer is for code signing', [withPurposes(code)]],
    ['whose authority is for code signing', chainVia([{ extensions: [purposes(code)] }])],
    [
      'whose signer and authority share no purpose',
      [
        authority.issue({
          ...below,
          issuer: 'Client CA',
          issuerKey: signer.privateKey,
          extensions: [purposes(server)],
        }).pem,
        authority.issue({ subject: 'Client CA', authority: true, extensions: [purposes(client)] }).pem,
      ],
    ],
    [
      'whose signer has a repeated extension',
      [authority.issue({ extensions: [purposes(server), purposes(server)] }).pem],
    ],
    ['whose signer has an empty list of purposes', [withPurposes()]],
  ])('validateChain: a chain %s is not trusted', (_what, pems) => {
    const verdict = validate(...pems)
    // The runtime may be unable to parse a malformed certificate.
    expect(verdict.kind === 'unreadable' ? refused('certificate_untrusted') : verdict).toEqual(
      refused('certificate_untrusted'),
    )
  })

  test('validateChain: refuses a chain that is longer than the path length of its root', () => {
    expect(limitedRoot(1).kind).toBe('trusted')
    expect(limitedRoot(0)).toEqual(refused('certificate_untrusted'))
  })

  test('validateChain: if the path length of an issuer is too small, uses another issuer of the same name', () => {
    const named = { subject: 'Via 0', authority: true }
    const [leaf = '', first = '', second = ''] = chainVia([{ pathLengthMax: 0 }, {}])
    expect(validate(leaf, first, second)).toEqual(refused('certificate_untrusted'))
    expect(validate(leaf, first, second, authority.issue(named).pem).kind).toBe('trusted')
  })

  test('validateChain: refuses a chain that begins with an authority’s certificate, because its subject is not a signer’s', () => {
    expect(validate(middle.pem, deep.pem)).toEqual(refused('certificate_subject_mismatch'))
  })

  test('validateChain: a certificate with a changed byte is not trusted', () => {
    const der = Buffer.from(new X509Certificate(signer.pem).raw)
    der.writeUInt8(der.readUInt8(der.length - 1) ^ 1, der.length - 1)
    const pem = `-----BEGIN CERTIFICATE-----\n${der.toString('base64')}\n-----END CERTIFICATE-----\n`
    expect(validate(pem)).toEqual(refused('certificate_untrusted'))
  })
})

describe('weak certificates', () => {
  const oldMiddle = authority.issue({ subject: 'Old Middle', authority: true, hash: 'sha1' })
  const smallMiddle = authority.issue({ subject: 'Small Middle', authority: true, bits: 1024 })
  const curve = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  test.each([
    ['a signer’s certificate signed with SHA-1', [authority.issue({ hash: 'sha1' }).pem]],
    [
      'an authority’s certificate signed with SHA-1',
      [authority.issue({ issuer: 'Old Middle', issuerKey: oldMiddle.privateKey }).pem, oldMiddle.pem],
    ],
    ['a key of 1024 bits', [authority.issue({ bits: 1024 }).pem]],
    [
      'an authority’s key of 1024 bits',
      [authority.issue({ issuer: 'Small Middle', issuerKey: smallMiddle.privateKey }).pem, smallMiddle.pem],
    ],
    ['a key that is not RSA', [authority.issue({ publicKey: curve.publicKey }).pem]],
  ])('validateChain: refuses %s as weak', (_what, pems) => {
    expect(validate(...pems)).toEqual(refused('certificate_weak'))
  })
})

describe('common name', () => {
  const named = (name: string) => validate(authority.issue({ subject: name }).pem)

  test.each(['messageverificationcerts.paypal.com', 'MessageVerificationCerts.sandbox.PayPal.com'])(
    'validateChain: accepts %s as the name of a signer',
    (name) => expect(named(name).kind).toBe('trusted'),
  )

  test.each([
    'www.paypal.com',
    'paypal.com',
    'messageverificationcerts.paypal.com.evil.example',
    'messageverificationcerts.evilpaypal.com',
    'xmessageverificationcerts.paypal.com',
    'messageverificationcerts..paypal.com',
    'messageverificationcerts.paypal.com\nCN=x',
    'x\nCN=messageverificationcerts.paypal.com',
    '',
  ])('validateChain: refuses %j as the name of a signer', (name) => {
    expect(named(name)).toEqual(refused('certificate_subject_mismatch'))
  })
})

test.each([
  ['an empty text', ''],
  ['a page', '<html>Sign in to the hotel’s network</html>'],
  ['a key', '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n'],
  ['a certificate with invalid content', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'],
  ['half a certificate', signer.pem.slice(0, 600)],
  ['eleven certificates', signer.pem.repeat(11)],
])('validateChain: returns unreadable for %s', (_what, pem) => {
  expect(validate(pem)).toEqual({ kind: 'unreadable' })
})

test('writeCertificate: the certificate parser of the runtime reads all values as they were written', () => {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const parts = { subject: 'A "name", ü', publicKey, issuer: 'Somebody', issuerKey: privateKey }
  const life = { validFromMs: Date.UTC(2001, 1, 3, 4, 5, 6), validToMs: Date.UTC(2049, 11, 31) }
  const read = new X509Certificate(writeCertificate({ ...parts, ...life, authority: true }))
  expect(read.issuer).toBe('CN=Somebody')
  expect(read.ca).toBe(true)
  expect(read.validFrom).toBe('Feb  3 04:05:06 2001 GMT')
  expect(read.validTo).toBe('Dec 31 00:00:00 2049 GMT')
  expect(read.verify(publicKey)).toBe(true)
  expect(read.serialNumber).toMatch(/^[4-7][0-9A-F]{31}$/)
})

const certificateOf = (pem: string) => new X509Certificate(pem)
const codeSigning = Buffer.from('30130603551d25040c300a06082b06010505070303', 'hex')

test('readExtensions: reads every certificate of the runtime’s root list', () => {
  const read = tls.rootCertificates.map((pem) => readExtensions(certificateOf(pem)))
  expect(read.length).toBeGreaterThan(50)
  for (const { pathLengthMax } of read) expect(pathLengthMax === undefined || pathLengthMax < 128).toBe(true)
})

test.each([undefined, 0, 1, 127])('readExtensions: reads path length %p', (pathLengthMax) => {
  const { pem } = authority.issue({
    authority: true,
    ...(pathLengthMax !== undefined && { pathLengthMax }),
  })
  expect(readExtensions(certificateOf(pem)).pathLengthMax).toBe(pathLengthMax)
})

test('readExtensions: reads extended key usages, and an absent extension means no restriction', () => {
  const limited = certificateOf(authority.issue({ extensions: [codeSigning] }).pem)
  expect([...(readExtensions(limited).purposes ?? [])]).toEqual(['2b06010505070303'])
  expect(readExtensions(certificateOf(authority.issue().pem)).purposes).toBeUndefined()
})

test('readExtensions: invalid DER either throws a RangeError or is read', () => {
  const { raw } = certificateOf(authority.issue({ extensions: [codeSigning] }).pem)
  let refused = 0
  for (let at = 0; at < raw.length; at += 1) {
    for (const value of [0x00, 0x7f, 0x80, 0x84, 0xff]) {
      const changed = Buffer.from(raw)
      changed.writeUInt8(value, at)
      try {
        readExtensions({ raw: changed })
      } catch (error) {
        expect(error).toBeInstanceOf(RangeError)
        refused += 1
      }
    }
  }
  expect(refused).toBeGreaterThan(100)
})
