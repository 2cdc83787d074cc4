import { describeHttpContract } from './describe-contract.ts'

describeHttpContract('sqlite')
describeHttpContract('postgres')
