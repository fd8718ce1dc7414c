import { afterAll, beforeAll, expect, test } from 'bun:test'
import { bringRelease, serviceUrl, stepMsMax, waitSeconds } from './node-release.ts'
import { run } from './program.ts'

/** Our image, under the name that it has here. */
const ourImage = ['registry=localhost', 'repository=latchkey', 'tag=test'].map(
  (pair) => `--set=image.${pair}`,
)

beforeAll(() => bringRelease(), stepMsMax)

afterAll(async () => {
  await run(['kubectl', 'delete', 'namespace', 'demo', `--timeout=${waitSeconds}s`])
}, stepMsMax)

test(
  'config/quickstart brings a first webhook to a callback in a pod, also when it is repeated',
  async () => {
    for (const time of ['first', 'second']) {
      const said = await run(['env', `LATCHKEY_URL=${serviceUrl}`, 'config/quickstart', ...ourImage])
      expect([time, said]).toEqual([time, expect.stringContaining('{"ok":true}')])
      const [, id, type] =
        /signature ok .*"payload":{"id":"(quickstart-\d+)","type":"([\w.]+)"/.exec(said) ?? []
      expect([time, id, type]).toEqual([time, expect.stringMatching(/^quickstart-\d+$/), 'order.paid'])
    }
  },
  stepMsMax,
)
