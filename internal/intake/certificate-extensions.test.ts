import { expect, test } from 'bun:test'
import { X509Certificate } from 'node:crypto'
import tls from 'node:tls'
import { createTestAuthority } from '#test/support/wallet-calls.ts'
import { readExtensions } from './certificate-extensions.ts'

const authority = createTestAuthority()
const certificateOf = (pem: string) => new X509Certificate(pem)
/** codeSigning alone. */
const codeSigning = Buffer.from('30130603551d25040c300a06082b06010505070303', 'hex')

test('certificate extensions: every certificate of the runtime’s root list is read', () => {
  const read = tls.rootCertificates.map((pem) => readExtensions(certificateOf(pem)))
  expect(read.length).toBeGreaterThan(50)
  for (const { pathLengthMax } of read) expect(pathLengthMax === undefined || pathLengthMax < 128).toBe(true)
})

test.each([undefined, 0, 1, 127])(
  'certificate extensions: path length %p is read as such',
  (pathLengthMax) => {
    const { pem } = authority.issue({
      authority: true,
      ...(pathLengthMax !== undefined && { pathLengthMax }),
    })
    expect(readExtensions(certificateOf(pem)).pathLengthMax).toBe(pathLengthMax)
  },
)

test('certificate extensions: purposes are read as such, and absent ones are no restriction', () => {
  const limited = certificateOf(authority.issue({ extensions: [codeSigning] }).pem)
  expect([...(readExtensions(limited).purposes ?? [])]).toEqual(['2b06010505070303'])
  expect(readExtensions(certificateOf(authority.issue().pem)).purposes).toBeUndefined()
})

test('certificate extensions: bytes that are no DER end in a RangeError or in extensions, never in anything else', () => {
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
