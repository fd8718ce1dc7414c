import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { invalid, ok, type ParsedValue, type ValueKind } from './value-kind.ts'

const fileBytesMax = 4 * 1024 * 1024
const certificatePattern = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

/** The path of a readable PEM file with one or more certificates; read now, so that a wrong one stops the start. */
export const certificatesFile: ValueKind<string> = {
  name: 'PEM file',
  parse: (path) =>
    checkedPem(path, (text) => {
      const certificates = text.match(certificatePattern) ?? []
      if (certificates.length === 0) return 'it holds no PEM certificate'
      const bad = certificates.findIndex((each) => !parses(() => new X509Certificate(each)))
      return bad < 0 ? undefined : `its certificate ${bad + 1} cannot be read`
    }),
}

/** The path of a readable PEM file with an unencrypted private key; read now, as `certificatesFile`. */
export const privateKeyFile: ValueKind<string> = {
  name: 'PEM file',
  parse: (path) =>
    checkedPem(path, (text) =>
      parses(() => createPrivateKey(text)) ? undefined : 'it holds no unencrypted PEM private key',
    ),
}

/** Whether the key file belongs to the first certificate of the certificate file. Both were parsed by their kinds. */
export function isKeyOf(keyPath: string, certificatePath: string): boolean {
  const certificate = new X509Certificate(readFileSync(certificatePath))
  return certificate.checkPrivateKey(createPrivateKey(readFileSync(keyPath)))
}

/** The text of a file never gets into a problem: it may be a key. */
function checkedPem(path: string, faultOf: (text: string) => string | undefined): ParsedValue<string> {
  const read = readBounded(path)
  const fault = read.kind === 'unreadable' ? read.fault : faultOf(read.text)
  return fault === undefined ? ok(path) : invalid(`the path of a readable PEM file: ${fault}`)
}

type Read =
  | { readonly kind: 'read'; readonly text: string }
  | { readonly kind: 'unreadable'; readonly fault: string }

function readBounded(path: string): Read {
  try {
    if (statSync(path).size > fileBytesMax)
      return { kind: 'unreadable', fault: `it is larger than ${fileBytesMax} bytes` }
    return { kind: 'read', text: readFileSync(path, 'utf8') }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
    return { kind: 'unreadable', fault: `it cannot be read (${code})` }
  }
}

function parses(parse: () => unknown): boolean {
  try {
    parse()
    return true
  } catch {
    return false
  }
}
