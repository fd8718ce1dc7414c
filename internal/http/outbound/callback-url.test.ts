import { describe, expect, test } from 'bun:test'
import { checkCallbackUrl, judgeCallback } from './callback-url.ts'

describe('a callback’s URL', () => {
  test.each([
    [
      'with everything',
      'https://hooks.example:8443/in/box?a=b%20c&d',
      { host: 'hooks.example', port: 8443, path: '/in/box?a=b%20c&d', authority: 'hooks.example:8443' },
    ],
    ['without a path', 'https://hooks.example', { port: 443, path: '/', authority: 'hooks.example' }],
    ['with the usual port', 'https://hooks.example:443/', { port: 443, authority: 'hooks.example' }],
    ['with a final dot', 'https://hooks.example./', { host: 'hooks.example', authority: 'hooks.example.' }],
    ['in capitals', 'HTTPS://Hooks.Example/Path', { host: 'hooks.example', path: '/Path' }],
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
  ])('%s', (_case, text, expected) => {
    expect(checkCallbackUrl(text)).toMatchObject({ kind: 'callback', url: expected })
  })

  test.each([
    ['nothing', '', 'malformed'],
    ['no URL', 'hooks.example/in', 'malformed'],
    ['no slashes', 'https:hooks.example', 'malformed'],
    ['no host after two slashes', 'https:///hooks.example', 'malformed'],
    ['another scheme', 'ftp://hooks.example/', 'scheme'],
    ['a user', 'https://user@hooks.example/', 'credentials'],
    ['a password', 'https://:secret@hooks.example/', 'credentials'],
    ['a fragment, empty even', 'https://hooks.example/#', 'fragment'],
    ['the port of SSH', 'https://hooks.example:22/', 'port'],
    ['a NUL', 'https://hooks.example/\0', 'malformed'],
    ['a host of over 253 letters', `https://${'a.'.repeat(130)}example/`, 'malformed'],
    ['2049 characters', `https://hooks.example/${'a'.repeat(2027)}`, 'too_long'],
  ])('with %s is refused', (_case, text, cause) => {
    expect(checkCallbackUrl(text)).toMatchObject({ kind: 'refused', cause })
  })

  test.each([
    ['https to a name', 'https://hooks.example/', [], [], 'callback'],
    ['https to a listed address', 'https://10.0.0.1/', ['10.0.0.0/8'], ['10.0.0.0/8'], 'callback'],
    ['http to a name, with a list', 'http://hooks.example/', ['10.0.0.0/8'], ['10.0.0.0/8'], 'callback'],
    ['http to a listed public address', 'http://8.8.8.8/', ['8.8.8.8/32'], ['8.8.8.8/32'], 'callback'],
    ['http to a name, without a list', 'http://hooks.example/', [], ['10.0.0.0/8'], 'refused'],
    ['http to a name, nothing permitted', 'http://hooks.example/', ['10.0.0.0/8'], [], 'refused'],
    [
      'http to a public address beside the list',
      'http://8.8.8.8/',
      ['10.0.0.0/8'],
      ['10.0.0.0/8'],
      'refused',
    ],
    ['https to a private address', 'https://10.0.0.1/', [], ['10.0.0.0/8'], 'refused'],
  ] as const)('before a name is resolved: %s', (_case, url, allowedCIDRs, cidrsMax, kind) => {
    expect(judgeCallback(url, allowedCIDRs, cidrsMax).kind).toBe(kind)
  })
})
