import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createOutbound, type Outbound } from './call.ts'
import { validateCallback } from './callback-url.ts'
import { answering, listenRaw, type RawServer } from './fixtures/servers.ts'

const everything = ['0.0.0.0/0', '::/0']

/** URLs that must not be called if nothing is listed. */
const payloads: readonly (readonly [string, string])[] = [
  ['loopback', 'https://127.0.0.1/'],
  ['a loopback address other than 127.0.0.1', 'https://127.255.255.254/'],
  ['loopback in short', 'https://127.1/'],
  ['loopback in decimal', 'https://2130706433/'],
  ['loopback in hexadecimal', 'https://0x7f000001/'],
  ['loopback in octal', 'https://017700000001/'],
  ['loopback, octal parts', 'https://0177.0.0.1/'],
  ['loopback, hexadecimal parts', 'https://0x7f.0x0.0x0.0x1/'],
  ['loopback, mixed parts', 'https://0x7f.1/'],
  ['loopback, padded parts', 'https://0127.0.0.1/'.replace('0127', '00000177')],
  ['loopback, percent-encoded', 'https://%31%32%37.0.0.1/'],
  ['loopback, full-width digits', 'https://１２７.0.0.1/'],
  ['loopback, circled digits', 'https://①②⑦.⓪.⓪.①/'],
  ['loopback, ideographic full stops', 'https://127。0。0。1/'],
  ['loopback with a final dot', 'https://127.0.0.1./'],
  ['loopback on a port of its own', 'https://127.0.0.1:8443/'],
  ['loopback over plain HTTP', 'http://127.0.0.1/'],
  ['loopback of IPv6', 'https://[::1]/'],
  ['loopback of IPv6, written out', 'https://[0:0:0:0:0:0:0:1]/'],
  ['the unspecified address', 'https://0.0.0.0/'],
  ['the unspecified address in short', 'https://0/'],
  ['this network', 'https://0.1.2.3/'],
  ['the unspecified IPv6 address', 'https://[::]/'],
  ['private 10', 'https://10.0.0.1/'],
  ['private 10 in decimal', 'https://167772161/'],
  ['private 172.16', 'https://172.16.0.1/'],
  ['the last of 172.16/12', 'https://172.31.255.255/'],
  ['private 192.168', 'https://192.168.1.1/'],
  ['unique local', 'https://[fc00::1]/'],
  ['unique local, the usual half', 'https://[fd12:3456:789a::1]/'],
  ['carrier-grade NAT', 'https://100.64.0.1/'],
  ['carrier-grade NAT, the last', 'https://100.127.255.255/'],
  ['link-local', 'https://169.254.1.1/'],
  ['link-local of IPv6', 'https://[fe80::1]/'],
  ['the end of link-local of IPv6', 'https://[febf::1]/'],
  ['metadata', 'https://169.254.169.254/latest/meta-data/'],
  ['metadata over plain HTTP', 'http://169.254.169.254/latest/meta-data/'],
  ['metadata in decimal', 'https://2852039166/'],
  ['metadata in hexadecimal', 'https://0xa9fea9fe/'],
  ['metadata in octal', 'https://0251.0376.0251.0376/'],
  ['metadata of containers', 'https://169.254.170.2/'],
  ['metadata of AWS over IPv6', 'https://[fd00:ec2::254]/'],
  ['metadata of Google over IPv6', 'https://[fd20:ce::254]/'],
  ['metadata of Alibaba', 'https://100.100.100.200/'],
  ['metadata of Oracle', 'https://192.0.0.192/'],
  ['the host of Azure, a public address', 'https://168.63.129.16/'],
  ['mapped loopback', 'https://[::ffff:127.0.0.1]/'],
  ['mapped loopback in hexadecimal', 'https://[::ffff:7f00:1]/'],
  ['mapped metadata', 'https://[::ffff:a9fe:a9fe]/'],
  ['mapped public address', 'https://[::ffff:8.8.8.8]/'],
  ['translated loopback', 'https://[::ffff:0:127.0.0.1]/'],
  ['compatible loopback', 'https://[::127.0.0.1]/'],
  ['NAT64 loopback', 'https://[64:ff9b::7f00:1]/'],
  ['NAT64 metadata', 'https://[64:ff9b::169.254.169.254]/'],
  ['local NAT64', 'https://[64:ff9b:1::a00:1]/'],
  ['6to4 loopback', 'https://[2002:7f00:1::]/'],
  ['6to4 private', 'https://[2002:a00:1::1]/'],
  ['Teredo', 'https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/'],
  ['ISATAP', 'https://[2600:1f00::5efe:10.0.0.1]/'],
  ['site-local', 'https://[fec0::1]/'],
  ['multicast', 'https://224.0.0.1/'],
  ['multicast of IPv6', 'https://[ff02::1]/'],
  ['broadcast', 'https://255.255.255.255/'],
  ['class E', 'https://240.0.0.1/'],
  ['documentation', 'https://192.0.2.1/'],
  ['documentation, the second', 'https://198.51.100.1/'],
  ['documentation, the third', 'https://203.0.113.1/'],
  ['documentation of IPv6', 'https://[2001:db8::1]/'],
  ['documentation of IPv6, the newer', 'https://[3fff::1]/'],
  ['benchmarks', 'https://198.18.0.1/'],
  ['benchmarks of IPv6', 'https://[2001:2::1]/'],
  ['protocol assignments', 'https://192.0.0.1/'],
  ['6to4 relays', 'https://192.88.99.1/'],
  ['ORCHID', 'https://[2001:20::1]/'],
  ['discard', 'https://[100::1]/'],
  ['segment routing', 'https://[5f00::1]/'],
  ['unassigned IPv6', 'https://[4000::1]/'],
  ['plain HTTP to a public address', 'http://8.8.8.8/'],
  ['another scheme', 'gopher://8.8.8.8/'],
  ['a file', 'file:///etc/passwd'],
  ['a user name that looks like the host', 'https://hooks.example@127.0.0.1/'],
  ['credentials', 'https://user:secret@8.8.8.8/'],
  ['a backslash that ends the host', 'https://127.0.0.1\\@hooks.example/'],
  ['a tab within the host', 'https://127.0.\t0.1/'],
  ['a line break in the path', 'https://8.8.8.8/\r\nHost: internal'],
  ['a space before it', ' https://127.0.0.1/'],
  ['a fragment', 'https://8.8.8.8/#@127.0.0.1/'],
  ['port 0', 'https://8.8.8.8:0/'],
  ['the port of mail', 'https://8.8.8.8:25/'],
  ['the port of IRC', 'https://8.8.8.8:6667/'],
  ['an address with a zone', 'https://[fe80::1%25eth0]/'],
  ['a port over 65535', 'https://8.8.8.8:65536/'],
  ['IPv4 beyond 32 bits', 'https://4294967296/'],
  ['over 2048 characters', `https://8.8.8.8/${'a'.repeat(2048)}`],
]

/** Addresses that a malicious name may resolve to. */
const answers: readonly (readonly [string, readonly string[]])[] = [
  ['loopback', ['127.0.0.1']],
  ['a private address', ['10.1.2.3']],
  ['metadata', ['169.254.169.254']],
  ['metadata of IPv6', ['fd00:ec2::254']],
  ['mapped loopback', ['::ffff:127.0.0.1']],
  ['mapped loopback in hexadecimal', ['::ffff:7f00:1']],
  ['NAT64 metadata', ['64:ff9b::a9fe:a9fe']],
  ['a public address and then a private address', ['8.8.8.8', '10.1.2.3']],
  ['a private address and then a public address', ['10.1.2.3', '8.8.8.8']],
  ['public over IPv4, loopback over IPv6', ['8.8.8.8', '::1']],
  [
    'many public addresses and one internal address',
    [...Array.from({ length: 60 }, (_, i) => `8.8.8.${i}`), '10.0.0.1'],
  ],
  ['a link-local address with a zone', ['fe80::1%eth0']],
  ['a value that is not an address', ['localhost']],
  ['decimal loopback', ['2130706433']],
  ['octal loopback', ['0177.0.0.1']],
]

let sink: RawServer
let outbound: Outbound
let asked = 0
const answerOf = new Map<string, readonly string[]>()

beforeAll(async () => {
  sink = await listenRaw(answering('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'))
  outbound = createOutbound({
    ports: 'any',
    cidrsMax: [],
    resolve: async (name) => {
      asked += 1
      return answerOf.get(name) ?? []
    },
  })
})

afterAll(async () => {
  outbound.close()
  await sink[Symbol.asyncDispose]()
})

const send = (url: string, allowedCIDRs: readonly string[] = []) =>
  outbound.send({ url, allowedCIDRs, headers: {}, body: '{}', timeoutMs: 1000 })

describe('refused targets', () => {
  test('SSRF: the test table contains at least 60 payloads', () => {
    expect(payloads.length + answers.length).toBeGreaterThanOrEqual(60)
  })

  test.each(payloads)('SSRF: a callback to %s is not called', async (_case, url) => {
    const before = asked
    const result = await send(url)
    expect(result.kind === 'failed' && result.cause).toMatch(/^(url|address)_refused$/)
    expect(validateCallback(url, { allowedCIDRs: [], cidrsMax: [], ports: 'any' }).kind).toBe('refused')
    expect(asked).toBe(before)
  })

  test.each(payloads)(
    'SSRF: a callback to %s is not called if the tenant lists the address but the platform does not',
    async (_case, url) => {
      const result = await send(url, everything)
      expect(result.kind === 'failed' && result.cause).toMatch(/^(url|address)_refused$/)
      expect(validateCallback(url, { allowedCIDRs: everything, cidrsMax: [], ports: 'any' }).kind).toBe(
        'refused',
      )
    },
  )

  test.each(answers)('SSRF: a callback whose name resolves to %s is not called', async (name, addresses) => {
    const host = `${name.replaceAll(/[^a-zA-Z0-9]+/g, '-').toLowerCase()}.example`
    answerOf.set(host, addresses)
    expect(await send(`https://${host}:${sink.port}/`)).toMatchObject({ cause: 'address_refused' })
    expect(await send(`http://${host}:${sink.port}/`)).toMatchObject({ cause: 'address_refused' })
  })

  test('SSRF: the result of a refused call does not reveal the address to which the name resolved', async () => {
    answerOf.set('internal.example', ['10.9.8.7'])
    expect(JSON.stringify(await send('https://internal.example/'))).not.toContain('10.9')
  })

  test.each([
    'https://169.254.169.254/',
    'https://169.254.1.1/',
    'https://[fe80::1]/',
    'https://[fd00:ec2::254]/',
    'https://168.63.129.16/',
    'https://100.100.100.200/',
    'https://[::ffff:169.254.169.254]/',
    'https://[64:ff9b::169.254.169.254]/',
    'https://[64:ff9b:1::169.254.169.254]/',
    'https://[64:ff9b:1:a9fe:a9:fe00::]/',
    'https://[64:ff9b:1:a9:fe:a9fe::]/',
    'https://[64:ff9b:1:0:a9:fea9:fe00:0]/',
    'https://[2002:a9fe:a9fe::]/',
    'https://[2001:0:a9fe:a9fe::1]/',
    'https://[2001:0:808:808::5601:5601]/',
    'https://[::169.254.169.254]/',
    'https://0.0.0.0/',
    'https://[::]/',
    'https://224.0.0.1/',
    'https://[ff02::1]/',
  ])('SSRF: a callback to %s is refused even if tenant and platform list the address', (url) => {
    expect(
      validateCallback(url, { allowedCIDRs: everything, cidrsMax: everything, ports: 'any' }),
    ).toMatchObject({ kind: 'refused', cause: 'address' })
  })

  test('SSRF: no refused call has reached the local server', () => {
    expect(sink.accepted()).toBe(0)
  })
})

describe('listed private address', () => {
  const list = ['127.0.0.0/8']
  const sendOnce = async (name: string, ports: readonly number[] | 'any', addresses: readonly string[]) => {
    const limited = createOutbound({ cidrsMax: list, ports, resolve: async () => addresses })
    const url = `http://${name}:${sink.port}/`
    const result = await limited.send({ url, allowedCIDRs: list, headers: {}, body: '{}', timeoutMs: 1000 })
    limited.close()
    return result.kind === 'answered' ? result.status : `${result.cause}: ${result.message}`
  }
  const refusal = () =>
    `address_refused: The callback’s URL must not use port ${sink.port} of a private address: use 80, 443, 8080, 8443, or ask the platform team to add it to LATCHKEY_CALLBACK_PORTS.`

  test('listed private address: is not called at a port that the platform does not allow, by name or by address', async () => {
    const before = sink.accepted()
    expect(await sendOnce('hooks.example', [], ['127.0.0.1'])).toBe(refusal())
    expect(await sendOnce('hooks.example', [1], ['127.0.0.1'])).toBe(refusal())
    expect(await sendOnce('127.0.0.1', [], [])).toBe(refusal())
    expect(sink.accepted()).toBe(before)
  })

  test('listed private address: is called at a port that the platform allows, or if the platform allows any port', async () => {
    expect(await sendOnce('hooks.example', [sink.port], ['127.0.0.1'])).toBe(200)
    expect(await sendOnce('127.0.0.1', 'any', [])).toBe(200)
  })
})
