# The command line: fit a table, look at it, label new rows, fill missing cells; then the same with texts.
expfam fit customers.csv --drop customer --seed 2 --output customers-model
expfam explain customers-model
expfam predict customers-model customers.csv --output labels.csv
expfam impute customers-model customers.csv --output filled.csv
expfam fit headlines.txt --seed 0 --output headlines-model
