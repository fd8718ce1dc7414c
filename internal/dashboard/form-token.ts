import { isCsrfToken, type Session } from '#internal/access/index.ts'

const tokenBytes = 32

/**
 * The token of a session's forms, as one answer bears it: under a pad that is used once, so that no two answers have it alike, and how
 * well an answer can be compressed tells nothing of it. `pad`: 32 random bytes.
 */
export function maskedToken(
  { csrfToken }: Session,
  pad = crypto.getRandomValues(new Uint8Array(tokenBytes)),
): string {
  const token = Buffer.from(csrfToken, 'base64url')
  return Buffer.concat([pad, exclusiveOr(token, pad)]).toString('base64url')
}

/** Whether a form bears the session's token, under whatever pad. */
export function isFormToken(session: Session, given: string): boolean {
  const bytes = Buffer.from(given, 'base64url')
  if (bytes.length !== 2 * tokenBytes) return false
  const token = exclusiveOr(bytes.subarray(tokenBytes), bytes.subarray(0, tokenBytes))
  return isCsrfToken(session, token.toString('base64url'))
}

function exclusiveOr(bytes: Buffer, pad: Uint8Array): Buffer {
  return Buffer.from(bytes.map((byte, nth) => byte ^ (pad[nth] ?? 0)))
}
