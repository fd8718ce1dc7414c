/** Logger of this room, in the form of pino's. Texts are constant, values are fields; neither contains secrets. */
export interface TenantLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Returns name, code and message of an error's cause: Drizzle's own message contains the statement's parameters. */
export function errorFields(error: unknown): object {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  if (!(cause instanceof Error)) return { error: 'not an error' }
  return { error: cause.message, errorName: cause.name, errorCode: 'code' in cause ? cause.code : undefined }
}
