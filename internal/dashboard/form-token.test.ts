import { expect, test } from 'bun:test'
import type { Session } from '#internal/access/index.ts'
import { isFormToken, maskedToken } from './form-token.ts'

const sessionOf = (fill: number): Session => ({
  ...{ actor: { kind: 'devAdmin' }, name: 'dev:admin', startedAtMs: 0, endsAtMs: 1 },
  csrfToken: Buffer.alloc(32, fill).toString('base64url'),
})

test('a form’s token looks different each time, shows nothing of the session’s, and counts', () => {
  const session = sessionOf(7)
  const masked = Array.from({ length: 50 }, () => maskedToken(session))
  for (const token of masked) {
    expect(isFormToken(session, token)).toBe(true)
    expect(token).not.toContain(session.csrfToken.slice(0, 8))
  }
  // Not one character stays where it was.
  for (let nth = 0; nth < 86; nth++)
    expect(new Set(masked.map((token) => token[nth])).size).toBeGreaterThan(1)
})

const good = maskedToken(sessionOf(7), new Uint8Array(32).fill(1))

test.each([
  ['the session’s own, without a pad', sessionOf(7).csrfToken],
  ['another session’s', maskedToken(sessionOf(8))],
  ['nothing', ''],
  ['something else', 'ü'.repeat(64)],
  ['a part of it', good.slice(0, -2)],
  ['more than it', `${good}AA`],
  ['one bit changed', `${good.slice(0, 60)}${good[60] === 'A' ? 'B' : 'A'}${good.slice(61)}`],
])('a token does not count that is %s', (_what, token) => {
  expect(isFormToken(sessionOf(7), good)).toBe(true)
  expect(isFormToken(sessionOf(7), token)).toBe(false)
})
