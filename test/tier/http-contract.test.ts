import { describeHttpContract } from '../http/describe-contract.ts'

describeHttpContract('tiered sqlite')
describeHttpContract('tiered postgres')
