import { expect, test } from 'bun:test'
import { providerAcceptance } from './provider-acceptance.ts'

const accepted = { kind: 'accept', state: 'accepted' } as const
const verified = { kind: 'accept', state: 'verified' } as const
const refusedAs = (cause: string) => ({ kind: 'refuse', cause }) as const

test.each([
  ['a provider without stages', {}, accepted],
  ['a provider that the spec does not list', { entry: undefined }, refusedAs('not_configured')],
  ['a provider with enabled: true', { entry: { enabled: true } }, accepted],
  ['a provider with enabled: false', { entry: { enabled: false } }, refusedAs('disabled')],
  ['the wallet in stage off', { provider: 'wallet' }, refusedAs('stage_off')],
  ['the wallet in stage verify', { provider: 'wallet', walletStage: 'verify' }, verified],
  ['the wallet in stage enabled', { provider: 'wallet', walletStage: 'enabled' }, accepted],
  [
    'a wallet with enabled: false in stage enabled',
    { provider: 'wallet', walletStage: 'enabled', entry: { enabled: false } },
    refusedAs('disabled'),
  ],
  [
    'a wallet that the spec does not list in stage enabled',
    { provider: 'wallet', walletStage: 'enabled', entry: undefined },
    refusedAs('not_configured'),
  ],
  ['another provider in stage verify', { walletStage: 'verify' }, accepted],
  ['the reserved provider', { provider: 'gateway' }, refusedAs('reserved')],
  ['the reserved provider in a sandbox', { provider: 'gateway', gatewaySandbox: true }, accepted],
  ['an unverified declaration', { isUnverified: true }, refusedAs('unverified')],
  [
    'an unverified declaration that the entry accepts',
    { isUnverified: true, entry: { acceptUnverified: true } },
    accepted,
  ],
] as const)('providerAcceptance: decides %s', (_case, facts, expected) => {
  const given = { provider: 'card', entry: {}, walletStage: 'off', ...facts } as const
  expect(providerAcceptance(given)).toMatchObject(expected)
})
