// Process that takes part in a leader election and prints one line per change of state: candidate.main.ts NAMESPACE NAME
import { Election } from '#internal/kube/index.ts'
import { openCluster } from './cluster.ts'

const [namespace = '', name = ''] = process.argv.slice(2)
const { client } = await openCluster()
const election = new Election({
  client,
  namespace,
  name,
  host: `pod-${process.pid}`,
  onEvent: (event) => console.log(JSON.stringify({ ...event, error: undefined })),
  lead: ({ signal }) =>
    new Promise((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true })
    }),
})
process.on('SIGTERM', () => {
  void election.stop().then(() => process.exit(0))
})
