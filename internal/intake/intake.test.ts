import { describe, expect, test } from 'bun:test'
import { hopsMax, hopsOf, keptHeaders } from './intake.ts'

const kept = (headers: Record<string, string>) =>
  JSON.parse(keptHeaders(new Headers(headers), [])) as Record<string, string>

describe('kept headers', () => {
  test.each([
    ['Authorization', 'Bearer lk_x'],
    ['Cookie', 'a=b'],
    ['Proxy-Authorization', 'Basic x'],
    ['Stripe-Signature', 't=1,v1=00'],
    ['X-Service-Signature', 't=1,v1=00'],
    ['X-Api-Key', 'x'],
    ['X-Apikey', 'x'],
    ['X-Auth-Token', 'x'],
    ['X-Amzn-Oidc-Accesstoken', 'x'],
    ['X-Forwarded-Client-Cert', 'x'],
    ['X-Something-Hmac-Sha256', 'x'],
    ['Paypal-Transmission-Sig', 'x'],
    ['X-Session-Id', 'x'],
    ['X-Auth-Key', 'x'],
    ['X-Functions-Key', 'x'],
    ['Ocp-Apim-Subscription-Key', 'x'],
    ['X-Access-Key', 'x'],
    ['X-Jwt', 'x'],
    ['X-Auth', 'x'],
    ['Connection', 'keep-alive'],
    ['Latchkey-Simulation', 'sim_1'],
    ['Latchkey-Anything', 'x'],
  ])('keptHeaders: drops %s', (name, value) => {
    expect(Object.keys(kept({ [name]: value }))).toEqual(['latchkey-hops'])
  })

  test.each([
    ['X-GitHub-Event', 'push'],
    ['X-Shopify-Topic', 'orders/create'],
    ['User-Agent', 'GitHub-Hookshot/1'],
    ['Traceparent', '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'],
    ['X-Request-Id', 'abc'],
    ['Content-Type', 'application/json'],
  ])('keptHeaders: keeps %s', (name, value) => {
    expect(kept({ [name]: value })).toEqual({ [name.toLowerCase()]: value, 'latchkey-hops': '1' })
  })

  test('keptHeaders: increments the hop count', () => {
    expect(kept({ 'Latchkey-Hops': '3' })['latchkey-hops']).toBe('4')
    expect(hopsOf(new Headers())).toBe(0)
  })

  test.each([['-1'], ['x'], ['1, 2'], ['1e3'], ['9999']])(
    'hopsOf: an invalid count of %p is read as the maximum',
    (text) => {
      expect(hopsOf(new Headers({ 'Latchkey-Hops': text }))).toBe(hopsMax)
    },
  )
})
