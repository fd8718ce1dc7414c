import { curve, type Dashboard, figure, of, type Row, rate } from './panel.ts'

const asked = (labels: string) => of('latchkey_tenants_requests_total', `tenant="$tenant",${labels}`)
const attempts = (labels = '') =>
  of('latchkey_tenants_attempts_total', `tenant="$tenant"${labels === '' ? '' : `,${labels}`}`)
const hooks = 'area="webhooks"'

/** One tenant. A pod tells the first 400 apart; all further ones are the tenant `other`. */
export function tenantDashboard(): Dashboard {
  return {
    name: 'tenant',
    title: 'Latchkey / Tenant',
    description: 'What one tenant sends and gets. Details of single events are on Latchkey’s own dashboard.',
    hasTenant: true,
    rows: [range(), curves()],
  }
}

function range(): Row {
  const total = (series: string) => `sum(increase(${series}[$__range]))`
  return {
    title: 'In the time that is shown',
    panels: [
      figure('Events accepted', 'short', total(asked(`${hooks},result="accepted"`)), {
        description: 'New ones of its providers.',
      }),
      figure('Calls refused', 'short', `${total(asked(`${hooks},result=~"refused|limited"`))} or vector(0)`, {
        description: 'Wrong signatures, missing settings, limits.',
      }),
      figure('Events taken by its callback', 'short', total(attempts('ending="processed"')), {
        description: 'Answered with 2xx.',
      }),
      figure('Events that failed', 'short', `${total(attempts('ending="failed"'))} or vector(0)`, {
        description: 'All attempts were used up.',
        bounds: [1, 100],
      }),
      figure(
        'Attempts that succeed',
        'percentunit',
        `${total(attempts('ending="processed"'))} / ${total(attempts())}`,
        {
          description: 'Of all calls of its callback.',
        },
      ),
      figure('Calls about records', 'short', `${total(asked('area="records"'))} or vector(0)`, {
        description: 'Checks, saves and all others.',
      }),
    ],
  }
}

function curves(): Row {
  return {
    title: 'Over time',
    panels: [
      curve(
        'Providers’ calls',
        'reqps',
        [[rate(asked(hooks), 'result'), '{{result}}']],
        'accepted, duplicate, refused (its own trouble), limited, unavailable (ours).',
      ),
      curve(
        'Calls of its callback',
        'ops',
        [[rate(attempts(), 'ending'), '{{ending}}']],
        'processed, tried again later, failed for good.',
      ),
      curve(
        'Calls about records',
        'reqps',
        [[rate(asked('area="records"'), 'result'), '{{result}}']],
        'By what became of them.',
      ),
      curve(
        'Attempts that succeed',
        'percentunit',
        [[`${rate(attempts('ending="processed"'))} / (${rate(attempts())} > 0)`, 'share']],
        'Nothing while its callback is not called.',
      ),
      curve(
        'Simulations',
        'reqps',
        [[rate(asked('area="simulations"'), 'result'), '{{result}}']],
        'Calls that begin one.',
      ),
      curve(
        'Share of all events',
        'percentunit',
        [
          [
            `${rate(asked(`${hooks},result="accepted"`))} / (${rate(of('latchkey_tenants_requests_total', `${hooks},result="accepted"`))} > 0)`,
            '{{tenant}}',
          ],
        ],
        'How much of the installation’s work is this tenant’s.',
      ),
    ],
  }
}
