import { describe, expect, test } from 'bun:test'
import { checkCallbackUrl, validateCallback } from './callback-url.ts'

describe('callback URL', () => {
  test.each([
    [
      'with port, path and query',
      'https://hooks.example:8443/in/box?a=b%20c&d',
      { host: 'hooks.example', port: 8443, path: '/in/box?a=b%20c&d', authority: 'hooks.example:8443' },
    ],
    ['without a path', 'https://hooks.example', { port: 443, path: '/', authority: 'hooks.example' }],
    ['with the default port', 'https://hooks.example:443/', { port: 443, authority: 'hooks.example' }],
    ['with a final dot', 'https://hooks.example./', { host: 'hooks.example', authority: 'hooks.example.' }],
    ['in upper case', 'HTTPS://Hooks.Example/Path', { host: 'hooks.example', path: '/Path' }],
    [
      'with letters beyond ASCII',
      'https://bücher.example/ü',
      { host: 'xn--bcher-kva.example', path: '/%C3%BC' },
    ],
    ['over plain HTTP', 'http://svc.shops:8080/', { scheme: 'http', port: 8080 }],
    ['with an address', 'https://8.8.8.8/', { host: '8.8.8.8', isAddress: true }],
    [
      'with an address of IPv6',
      'https://[2606:4700::1]:8443/',
      { host: '2606:4700::1', authority: '[2606:4700::1]:8443' },
    ],
    ['with an address in hexadecimal', 'https://0x08080808/', { host: '8.8.8.8', isAddress: true }],
    ['of a service in the cluster', 'http://intake.shops.svc.cluster.local/', { isAddress: false, port: 80 }],
  ])('callback URL: a URL %s (%s) is parsed', (_case, text, expected) => {
    expect(checkCallbackUrl(text)).toMatchObject({ kind: 'callback', url: expected })
  })

  test.each([
    ['no characters', '', 'malformed'],
    ['no scheme', 'hooks.example/in', 'malformed'],
    ['no slashes', 'https:hooks.example', 'malformed'],
    ['no host after two slashes', 'https:///hooks.example', 'malformed'],
    ['another scheme', 'ftp://hooks.example/', 'scheme'],
    ['a user', 'https://user@hooks.example/', 'credentials'],
    ['a password', 'https://:secret@hooks.example/', 'credentials'],
    ['an empty fragment', 'https://hooks.example/#', 'fragment'],
    ['the port of SSH', 'https://hooks.example:22/', 'port'],
    ['a NUL', 'https://hooks.example/\0', 'malformed'],
    ['a host of over 253 letters', `https://${'a.'.repeat(130)}example/`, 'malformed'],
    ['2049 characters', `https://hooks.example/${'a'.repeat(2027)}`, 'too_long'],
  ])('callback URL: a text with %s is refused', (_case, text, cause) => {
    expect(checkCallbackUrl(text)).toMatchObject({ kind: 'refused', cause })
  })

  test.each([
    ['https to a name', 'https://hooks.example/', [], [], 'callback'],
    ['https to a listed address', 'https://10.0.0.1/', ['10.0.0.0/8'], ['10.0.0.0/8'], 'callback'],
    ['http to a name, with a list', 'http://hooks.example/', ['10.0.0.0/8'], ['10.0.0.0/8'], 'callback'],
    ['http to a listed public address', 'http://8.8.8.8/', ['8.8.8.8/32'], ['8.8.8.8/32'], 'callback'],
    ['http to a name, without a list', 'http://hooks.example/', [], ['10.0.0.0/8'], 'refused'],
    [
      'http to a name, with no network allowed by the platform',
      'http://hooks.example/',
      ['10.0.0.0/8'],
      [],
      'refused',
    ],
    [
      'http to a public address outside the lists',
      'http://8.8.8.8/',
      ['10.0.0.0/8'],
      ['10.0.0.0/8'],
      'refused',
    ],
    ['https to a private address', 'https://10.0.0.1/', [], ['10.0.0.0/8'], 'refused'],
  ] as const)(
    'validateCallback: for %s (%s, tenant lists %j, platform lists %j) the result is %s',
    (_case, url, allowedCIDRs, cidrsMax, kind) => {
      expect(validateCallback(url, { allowedCIDRs, cidrsMax, ports: [] }).kind).toBe(kind)
    },
  )
})

describe('callback port', () => {
  const listed = ['10.0.0.0/8', '127.0.0.0/8', 'fd00::/8', '8.8.8.8/32', '::ffff:0:0/96']
  const validate = (url: string, ports: readonly number[] | 'any') =>
    validateCallback(url, { allowedCIDRs: listed, cidrsMax: listed, ports })

  test.each<[string, string, readonly number[] | 'any', 'callback' | 'port_not_listed']>([
    ['80 by default, private', 'http://10.1.2.3/in', [], 'callback'],
    ['443 by default, private', 'https://10.1.2.3/in', [], 'callback'],
    ['8080, private', 'http://10.1.2.3:8080/in', [], 'callback'],
    ['8443, private over IPv6', 'https://[fd00::1]:8443/in', [], 'callback'],
    ['443 by default over IPv6', 'https://[fd00::1]/in', [], 'callback'],
    ['5432 (Postgres), private', 'http://10.1.2.3:5432/', [], 'port_not_listed'],
    ['6379 (Redis), private', 'http://10.1.2.3:6379/', [], 'port_not_listed'],
    ['10250 (kubelet), private', 'https://10.1.2.3:10250/', [], 'port_not_listed'],
    ['10250 (kubelet) over IPv6', 'https://[fd00::1]:10250/', [], 'port_not_listed'],
    ['10250 (kubelet), IPv4 in IPv6', 'https://[::ffff:10.1.2.3]:10250/', [], 'port_not_listed'],
    ['443, IPv4 in IPv6', 'https://[::ffff:10.1.2.3]/', [], 'callback'],
    ['9000, written in hexadecimal', 'http://0x0a010203:9000/', [], 'port_not_listed'],
    ['9000, loopback', 'http://127.0.0.1:9000/', [], 'port_not_listed'],
    ['9000, allowed', 'http://10.1.2.3:9000/', [9000, 9001], 'callback'],
    ['9002, with other ports allowed', 'http://10.1.2.3:9002/', [9000, 9001], 'port_not_listed'],
    ['9000, with any port allowed', 'http://10.1.2.3:9000/', 'any', 'callback'],
    ['9000, public', 'https://1.1.1.1:9000/', [], 'callback'],
    ['9000, public and listed', 'http://8.8.8.8:9000/', [], 'callback'],
    ['9000 of an https name, whose address is not known', 'https://hooks.example:9000/', [], 'callback'],
  ])(
    'callback port: for port %s (%s, LATCHKEY_CALLBACK_PORTS %j) the result is %s',
    (_case, url, ports, expected) => {
      const checked = validate(url, ports)
      expect(checked.kind === 'refused' ? checked.cause : checked.kind).toBe(expected)
    },
  )

  test('callback port: the port of an http name is checked before resolution if the lists contain only private networks', () => {
    const rules = (cidrs: string[]) => ({ allowedCIDRs: cidrs, cidrsMax: cidrs, ports: [] })
    const url = 'http://intake.shops.svc:3000/'
    expect(validateCallback(url, rules(['10.0.0.0/8']))).toMatchObject({
      kind: 'refused',
      cause: 'port_not_listed',
    })
    expect(validateCallback(url, rules(['0.0.0.0/0'])).kind).toBe('callback')
  })

  test('callback port: the message of a refusal contains the port and LATCHKEY_CALLBACK_PORTS', () => {
    expect(validate('http://10.1.2.3:5432/', [])).toMatchObject({
      message:
        'must not use port 5432 of a private address: use 80, 443, 8080, 8443, or ask the platform team to add it to LATCHKEY_CALLBACK_PORTS',
    })
  })
})
