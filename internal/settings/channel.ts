import type { RedisConnection } from '#internal/storage/index.ts'

/** The channel on which whoever wrote settings says so, for all processes. The message means nothing. */
export const settingsChannel = 'latchkey:settings'

/** Tells all processes that settings changed. Repeating it is harmless. @throws RedisUnavailable: they will poll */
export async function tellSettings(redis: RedisConnection): Promise<void> {
  await redis.publish(settingsChannel, '')
}
